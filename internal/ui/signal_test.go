package ui

import (
	"bufio"
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/calico-probe/calico-probe/probe/must"
)

// TestSayStopping requires a signal during a question to say that nothing was removed, and the usual message before and
// after it.
func TestSayStopping(t *testing.T) {
	t.Parallel()
	i := &Interrupts{}
	said := func() string {
		var out bytes.Buffer
		i.sayStopping(&out)
		return out.String()
	}
	if text := said(); !strings.Contains(text, "stopping: removing all created objects") {
		t.Error(text)
	}
	back := i.Stopping("nothing was removed")
	if text := said(); !strings.HasPrefix(text, "\n") || !strings.HasSuffix(text, "nothing was removed\n") ||
		strings.Contains(text, "created") {
		t.Errorf("%q", text)
	}
	back()
	if text := said(); !strings.Contains(text, "stopping: removing all created objects") {
		t.Error(text)
	}
}

// TestOneStop ends a program as timeout(1) does: SIGTERM arrives twice, for the process and for the group, and counts
// once.
func TestOneStop(t *testing.T) { // not in parallel: a child being forked holds the others' pipes
	if os.Getenv("UI_STOPPED") != "" {
		ctx, code, stop := UntilSignal(t.Context(), os.Stderr, &Interrupts{})
		defer stop()
		fmt.Println("ready")
		<-ctx.Done()
		time.Sleep(300 * time.Millisecond) // removing what was created
		fmt.Println("removed everything", code())
		return
	}
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run", "^TestOneStop$")
	cmd.Env = append(os.Environ(), "UI_STOPPED=1")
	out := must.Get(cmd.StdoutPipe())(t)
	must.Do(t, cmd.Start())
	lines := bufio.NewScanner(out)
	for lines.Scan() {
		if lines.Text() == "ready" {
			break
		}
	}
	for range 2 {
		must.Do(t, cmd.Process.Signal(syscall.SIGTERM))
		time.Sleep(20 * time.Millisecond) // or the kernel makes one of the two
	}
	if !lines.Scan() || lines.Text() != "removed everything 143" {
		t.Errorf("it said %q, want everything removed", lines.Text())
	}
	for lines.Scan() {
	}
	if err := cmd.Wait(); err != nil {
		t.Error(err)
	}
}
