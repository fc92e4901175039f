package main

import (
	"fmt"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
	"k8s.io/cli-runtime/pkg/genericiooptions"

	"github.com/calico-probe/calico-probe/internal/report"
	"github.com/calico-probe/calico-probe/probe/must"
)

// terminal returns both ends of a terminal: the user's and the program's.
func terminal(t *testing.T) (ours, theirs *os.File) {
	t.Helper()
	ours = must.Get(os.OpenFile("/dev/ptmx", os.O_RDWR, 0))(t)
	t.Cleanup(func() { _ = ours.Close() })
	fd := int(ours.Fd())
	must.Do(t, unix.IoctlSetPointerInt(fd, unix.TIOCSPTLCK, 0))
	number := must.Get(unix.IoctlGetInt(fd, unix.TIOCGPTN))(t)
	theirs = must.Get(os.OpenFile(fmt.Sprintf("/dev/pts/%d", number), os.O_RDWR|syscall.O_NOCTTY, 0))(t)
	t.Cleanup(func() { _ = theirs.Close() })
	return ours, theirs
}

// TestConsentTimeout requires the message after an unanswered question to begin a new line.
func TestConsentTimeout(t *testing.T) {
	t.Parallel()
	a := newHealthAPI(t, 21)
	ours, theirs := terminal(t)
	exit := Run(t.Context(), genericiooptions.IOStreams{In: theirs, Out: t.Output(), ErrOut: theirs},
		[]string{"run", "--all-nodes", "--kubeconfig", a.kubeconfig, "--timeout", "8s"})
	b := make([]byte, 16<<10)
	n, _ := ours.Read(b)
	for n < len(b) && !strings.Contains(string(b[:n]), "is over") {
		more, err := ours.Read(b[n:])
		if n += more; err != nil {
			break
		}
	}
	if text := string(b[:n]); exit != report.ExitTool || !strings.Contains(text, "Type yes: \r\ncalico-probe: error: ") {
		t.Errorf("exit %d: %q", exit, text)
	}
}

// TestConsentOnTerminal asks a person, with the cluster and the number of nodes. The person types yes or something
// else.
func TestConsentOnTerminal(t *testing.T) {
	t.Parallel()
	for typed, agrees := range map[string]bool{"yes\n": true, "y\n": false, "\n": false, "no\n": false} {
		a := newHealthAPI(t, 21)
		ours, theirs := terminal(t)
		came := make(chan int, 1)
		go func() {
			came <- Run(t.Context(), genericiooptions.IOStreams{In: theirs, Out: t.Output(), ErrOut: theirs},
				[]string{"run", "--all-nodes", "--kubeconfig", a.kubeconfig})
		}()
		shown := make(chan string, 1)
		go func() {
			var text strings.Builder
			b := make([]byte, 4096)
			for {
				n, err := ours.Read(b)
				text.Write(b[:n])
				if err != nil || strings.Contains(text.String(), "Type yes: ") {
					shown <- text.String()
					return
				}
			}
		}()
		select {
		case text := <-shown:
			if i := strings.Index(text, "putting probes"); i >= 0 {
				t.Errorf("%q: announced before it is agreed to", text)
			}
			if _, posts := a.counts(); !strings.Contains(text, "on 21 nodes of x (http://127.0.0.1:") || posts > 0 {
				t.Errorf("%q: %d created", text, posts)
			}
		case <-time.After(30 * time.Second):
			t.Fatal("nobody is asked")
		}
		must.Get(ours.WriteString(typed))(t)
		select {
		case exit := <-came:
			// A no is not a tool failure. A yes creates no pod: only the API is used.
			if _, posts := a.counts(); exit != report.ExitIncomplete || (posts > 0) != agrees {
				t.Errorf("%q: exit %d, %d created", typed, exit, posts)
			}
		case <-time.After(60 * time.Second):
			t.Fatalf("%q: the run does not end", typed)
		}
	}
}
