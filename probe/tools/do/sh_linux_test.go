package do

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/probe/must"
	"github.com/calico-probe/calico-probe/probe/tools"
)

// screen keeps what a shell writes.
type screen struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (s *screen) Write(b []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.text.Write(b)
}

func (s *screen) String() string { s.mu.Lock(); defer s.mu.Unlock(); return s.text.String() }

// until waits until the screen shows a text.
func (s *screen) until(t *testing.T, text string) {
	t.Helper()
	for began := time.Now(); !strings.Contains(s.String(), text); time.Sleep(5 * time.Millisecond) {
		if time.Since(began) > 20*time.Second {
			t.Fatalf("%q did not come:\n%s", text, s)
		}
	}
}

// prompted waits until the shell shows its prompt.
func (s *screen) prompted(t *testing.T) {
	t.Helper()
	waits := func() bool { return strings.HasSuffix(s.String(), "# ") || strings.HasSuffix(s.String(), "$ ") }
	for began := time.Now(); !waits(); time.Sleep(5 * time.Millisecond) {
		if time.Since(began) > 20*time.Second {
			t.Fatalf("no prompt came:\n%s", s)
		}
	}
}

// sitting is a shell in use.
type sitting struct {
	screen
	keys  *io.PipeWriter
	sizes *probe.Sizes
	stop  context.CancelFunc
	ended chan probe.Result
}

// sit starts a shell with the root directory of this machine, on a real terminal.
func sit(t *testing.T, args ...string) *sitting {
	t.Helper()
	run := parsed(t, "sh", args...)
	ctx, stop := context.WithCancel(t.Context())
	in, keys := io.Pipe()
	s := &sitting{keys: keys, sizes: probe.NewSizes(), stop: stop, ended: make(chan probe.Result, 1)}
	go func() {
		defer in.Close()
		s.ended <- run(ctx, &probe.Job{Host: &probe.Host{Node: "n1", Root: "/", Proc: "/proc"}, Out: &s.screen,
			In: in, Size: probe.Size{Rows: 31, Cols: 101}, Sizes: s.sizes})
	}()
	t.Cleanup(func() { stop(); keys.Close() })
	return s
}

func (s *sitting) keyed(t *testing.T, text string) {
	t.Helper()
	must.Get(io.WriteString(s.keys, text))(t)
}

func (s *sitting) result(t *testing.T) probe.Result {
	t.Helper()
	select {
	case r := <-s.ended:
		return r
	case <-time.After(20 * time.Second):
		t.Fatalf("the shell does not end:\n%s", &s.screen)
		return probe.Result{}
	}
}

// TestShell uses a shell on its own terminal: input arrives, its size is the user's and changes with it, Ctrl-C ends
// only the running command, and its exit code is reported.
func TestShell(t *testing.T) {
	t.Parallel()
	s := sit(t, "--term", "xterm-256color")
	s.until(t, "your commands are not read-only")
	s.keyed(t, "echo $((6*7)) $TERM; tty; stty size\r")
	s.until(t, "42 xterm-256color")
	s.until(t, "/dev/pts/")
	s.until(t, "31 101")
	for rows := range uint16(50) { // input after a change sees it
		s.sizes.Put(probe.Size{Rows: 100 + rows, Cols: 90})
		s.keyed(t, "echo size=$(stty size)\r")
		s.until(t, fmt.Sprintf("size=%d 90", 100+rows))
		s.prompted(t) // bash sets the size that it had read again when it takes the terminal back
	}
	s.keyed(t, "echo sleep''ing; sleep 300; echo aft''er\r")
	s.until(t, "sleeping")
	time.Sleep(100 * time.Millisecond)
	s.keyed(t, "\x03")
	s.keyed(t, "echo still''here\r")
	s.until(t, "stillhere")
	s.keyed(t, "exit 7\r")
	r := s.result(t)
	if code, _ := r.Facts.Num(tools.FactExit); r.Status != probe.OK || code != 7 ||
		!strings.Contains(r.Saw, "exit code 7") {
		t.Errorf("%+v", r)
	}
}

// TestShellStopped checks that nothing of a stopped shell remains, however its processes resist.
func TestShellStopped(t *testing.T) {
	t.Parallel()
	s := sit(t, "--quiet")
	s.keyed(t, "(trap '' HUP TERM INT; sleep 300) & sleep 301 & echo pid $$.\r")
	s.until(t, "pid ")
	s.until(t, ".\r\n")
	s.keyed(t, "trap '' HUP; echo re''ady; sleep 302\r")
	s.until(t, "ready")
	text := s.String()
	_, text, _ = strings.Cut(text[strings.LastIndex(text, "\r\npid "):], "pid ")
	pid, _, _ := strings.Cut(text, ".")
	session := number(t, pid)
	if len(signal(session)) < 3 {
		t.Fatalf("this test sees no processes where there are some: %v", signal(session))
	}
	s.stop()
	if r := s.result(t); r.Status != probe.Unknown || !strings.Contains(r.Saw, "were killed") {
		t.Errorf("%+v", r)
	}
	if still := signal(session); len(still) > 0 {
		t.Errorf("processes %v still run", still)
	}
	if _, err := os.Stat(filepath.Join("/proc", pid)); err == nil {
		t.Error("the shell is a zombie")
	}
}

func number(t *testing.T, text string) int {
	t.Helper()
	if text == "" {
		t.Fatal("a number is missing")
	}
	n := 0
	for _, r := range text {
		if r < '0' || r > '9' {
			t.Fatalf("%q is no number", text)
		}
		n = n*10 + int(r-'0')
	}
	return n
}

// TestShellLeavesBackground checks that background processes end with their shell, and all earlier output arrives.
func TestShellLeavesBackground(t *testing.T) {
	t.Parallel()
	s := sit(t, "--quiet")
	// nohup's own message stays off the terminal, where it could appear in the middle of a line.
	s.keyed(t, "nohup sleep 303 >/dev/null 2>&1 & echo pid $$.; seq 20000; exit\r")
	if r := s.result(t); r.Status != probe.OK {
		t.Errorf("%+v", r)
	}
	text := s.String()
	if !strings.Contains(text, "\r\n20000\r\n") || !strings.Contains(text, "\r\n19999\r\n") {
		t.Errorf("the end is missing: %q", text[max(0, len(text)-200):])
	}
	_, pid, _ := strings.Cut(text, "\r\npid ")
	pid, _, _ = strings.Cut(pid, ".")
	if still := signal(number(t, pid)); len(still) > 0 {
		t.Errorf("processes %v still run", still)
	}
}

// TestCommand runs commands without a terminal.
func TestCommand(t *testing.T) {
	t.Setenv("CALICO_PROBE_SECRET", "hunter2")
	for _, c := range []struct {
		args   []string
		status probe.Status
		code   float64
		out    string
	}{
		{[]string{"-c", "echo out; echo err >&2; tty"}, probe.Fail, 1, "out\nerr\nnot a tty\n"},
		{[]string{"-c", "exit 3"}, probe.Fail, 3, ""},
		{[]string{"--", "printf", "%s|", "a b", "$HOME"}, probe.OK, 0, "a b|$HOME|"},
		{[]string{"-c", "kill -9 $$"}, probe.Fail, 128 + float64(syscall.SIGKILL), ""},
		{[]string{"-c", "(sleep 304; echo late) & echo early"}, probe.OK, 0, "early\n"},
		{[]string{"-c", "setsid sleep 5 & sleep .1; echo early"}, probe.OK, 0, "early\n"},
		{[]string{"-c", "echo ${CALICO_PROBE_SECRET:-nothing} $TERM"}, probe.OK, 0, "nothing dumb\n"},
		{[]string{"-c", "x=grün; echo ${#x}"}, probe.OK, 0, "4\n"},
		{[]string{"--term", "../../../etc/x", "-c", "echo $TERM"}, probe.OK, 0, "dumb\n"},
		{nil, probe.Skip, 0, ""},
	} {
		run := parsed(t, "sh", c.args...)
		var out bytes.Buffer
		began := time.Now()
		r := run(t.Context(), &probe.Job{Host: &probe.Host{Root: "/"}, Out: &out, In: strings.NewReader("")})
		if code, _ := r.Facts.Num(tools.FactExit); r.Status != c.status || code != c.code || out.String() != c.out {
			t.Errorf("sh %q: %+v\n%q", c.args, r, out.String())
		}
		if took := time.Since(began); took > 4*time.Second {
			t.Errorf("sh %q took %v", c.args, took)
		}
	}
}

// TestNoShell checks that a node without a shell, or with an invisible root, is skipped, so that the toolbox can be
// used instead.
func TestNoShell(t *testing.T) {
	t.Parallel()
	empty := t.TempDir()
	for _, dir := range []string{"etc", "bin"} {
		must.Do(t, os.Mkdir(filepath.Join(empty, dir), 0o700))
	}
	for name, text := range map[string]string{"etc/passwd": "root:x:0:0::/root:/sbin/nologin\n",
		"bin/bash": "no program"} {
		must.Do(t, os.WriteFile(filepath.Join(empty, name), []byte(text), 0o600))
	}
	if err := os.Symlink("/bin/bash", filepath.Join(empty, "bin/sh")); err != nil { // not this machine's
		t.Fatal(err)
	}
	for reason, host := range map[string]*probe.Host{
		tools.ReasonNoShell: {Root: empty},
		tools.ReasonNoRoot:  {Root: "/host", Only: []string{"/run"}},
	} {
		run := parsed(t, "sh", "-c", "true")
		if r := run(t.Context(), &probe.Job{Host: host, Out: io.Discard}); r.Status != probe.Skip ||
			r.Facts.Str(probe.FactReason) != reason {
			t.Errorf("%+v, want %s", r, reason)
		}
	}
}
