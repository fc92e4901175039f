package prompt

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/calico-probe/calico-probe/probe/must"
)

// onTerminal runs the shell of TestAtTerminal on a terminal of this width. It returns functions that type, and that
// wait until the terminal has shown a text since the last key.
func onTerminal(t *testing.T, columns uint16) (types func(string), wants func(string)) {
	t.Helper()
	ours := must.Get(os.OpenFile("/dev/ptmx", os.O_RDWR, 0))(t)
	t.Cleanup(func() { ours.Close() })
	fd := int(ours.Fd())
	must.Do(t, unix.IoctlSetPointerInt(fd, unix.TIOCSPTLCK, 0))
	number := must.Get(unix.IoctlGetInt(fd, unix.TIOCGPTN))(t)
	theirs := must.Get(os.OpenFile(fmt.Sprintf("/dev/pts/%d", number), os.O_RDWR|syscall.O_NOCTTY, 0))(t)
	defer theirs.Close()
	must.Do(t, unix.IoctlSetWinsize(fd, unix.TIOCSWINSZ, &unix.Winsize{Row: 24, Col: columns}))
	shell := exec.CommandContext(t.Context(), os.Args[0], "-test.run", "^TestAtTerminal$")
	shell.Env = append(os.Environ(), "SHELL_TEST_TERMINAL=1", "TERM=xterm")
	shell.Stdin, shell.Stdout, shell.Stderr = theirs, theirs, theirs
	shell.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	must.Do(t, shell.Start())
	t.Cleanup(func() { _ = shell.Process.Kill(); _ = shell.Wait() })
	var mu sync.Mutex
	var shown bytes.Buffer
	go func() {
		b := make([]byte, 4096)
		for {
			n, err := ours.Read(b)
			if err != nil {
				return
			}
			mu.Lock()
			shown.Write(b[:n])
			mu.Unlock()
		}
	}()
	steers := regexp.MustCompile(`\x1b\[[0-9;?]*[a-zA-Z]|\r`)
	sees := func() string {
		mu.Lock()
		defer mu.Unlock()
		return steers.ReplaceAllString(shown.String(), "")
	}
	types = func(keys string) {
		t.Helper()
		mu.Lock()
		shown.Reset()
		mu.Unlock()
		must.Get(ours.WriteString(keys))(t)
	}
	wants = func(text string) {
		t.Helper()
		for end := time.Now().Add(time.Minute); !strings.Contains(sees(), text); time.Sleep(10 * time.Millisecond) {
			if time.Now().After(end) {
				t.Fatalf("no %q in\n%s", text, sees())
			}
		}
	}
	wants("at> ")
	return types, wants
}

// TestShellListsWhatAWordIs requires Tab to list the owner of each address, and to insert only the address.
func TestShellListsWhatAWordIs(t *testing.T) {
	t.Parallel()
	types, wants := onTerminal(t, 100)
	types("go 1\t\t")
	wants("10.0.0.1 (node-a)")
	wants("10.0.0.12 (default/web-1)")
	wants("192.0.2.1 (node-b)")
	types("0\t\t")
	wants("at> go 10.0.0.1")
	types("2\t\n")
	wants("gone to [10.0.0.12]\n")
	types("go 19\t\n")
	wants("gone to [192.0.2.1]\n")
}

// TestShellBreaksLinesBetweenWords uses a terminal that is narrower than the output.
func TestShellBreaksLinesBetweenWords(t *testing.T) {
	t.Parallel()
	types, wants := onTerminal(t, 60)
	types("row\n")
	wants("kube-system/calico-node-x7k2p  calico-node  running  41d  0\n  calico/node:v3.32.1\n")
	types("fails\n")
	wants("calico-probe: node-b does not answer: the probe on it has\n  ended by itself\n")
}
