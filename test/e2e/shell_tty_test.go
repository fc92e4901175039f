//go:build e2e

package e2e

import (
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"
)

// TestShellPicks requires a list of nodes to choose from, with completion.
func TestShellPicks(t *testing.T) {
	for _, node := range []string{"node-a", "node-b"} { // the worse would be the first
		nodeReady(t, node)
	}
	s := newScreen(t)
	s.client("shell")
	s.wants("1  node-a")
	s.wantsLast("node (number or name; Enter = node-a):")
	s.enter("nowhere")
	s.wants(`unknown node "nowhere"`)
	s.enter("node")
	s.wants("2  node-b")
	s.types("node-")
	s.press("Tab", "Tab")
	s.wants("node-a node-b")
	s.types("b")
	s.press("Enter")
	s.wantsLast("node-b>")
	s.press("C-d")
	s.left(0)
	s.client("shell")
	s.wantsLast("node (number or name; Enter = node-a):")
	s.press("C-c")
	s.left(0)
	s.client("shell")
	s.wantsLast("node (number or name; Enter = node-a):")
	s.press("C-d")
	s.left(0)
	nothingLeft(t)
}

// TestShellOnTerminal replays an hour at a node in a minute.
func TestShellOnTerminal(t *testing.T) {
	s := newScreen(t)
	s.client("shell --node node-a")
	s.wantsLast("node-a>")
	s.wants(`type "help" for the commands`)
	s.types("pi")
	s.press("Tab")
	s.wantsLast("node-a> ping")
	s.types("10.96.0.1")
	s.press("Tab", "Tab") // the API's address, and the DNS's, which begins with it
	s.wants("10.96.0.10 (")
	s.wants("DNS service")
	s.press("C-u")
	for _, c := range [][2]string{{"links eth", "links eth0"}, {"logs calico-n", "logs calico-node"}} {
		s.types(c[0])
		eventually(t, time.Minute, func() string { // the probe may take longer than Tab waits
			s.press("Tab")
			if shown := s.shows(); !strings.HasSuffix(strings.TrimRight(shown, " "), "node-a> "+c[1]) {
				return fmt.Sprintf("not completed to %q:\n%s", c[1], shown)
			}
			return ""
		})
		s.press("C-u")
	}
	s.types("run node-le")
	s.press("Tab")
	s.wantsLast("node-a> run node-lease")
	s.press("C-c") // drops it
	s.wantsLast("node-a>")
	s.enter("pnig 127.0.0.1")
	s.wants(`did you mean "ping"?`)
	s.enter("help ping")
	s.wants("ping an address")
	s.wantsLast("node-a>")

	s.enter("ping -c 0 127.0.0.1; help")
	s.wants("answered")
	s.press("C-c")
	s.wantsLast("node-a>")
	if shown := s.shows(); strings.Contains(shown, "Ctrl-D leaves") {
		t.Errorf("Ctrl-C did not end the rest of the line:\n%s", shown)
	}

	s.resize(60, 20)
	s.types("run node-ready")
	s.wantsLast("node-a> run node-ready") // by now the editor knows how wide it is
	s.types(" and this is a line that is longer than the window is")
	s.wants("{") // it is scrolled sideways
	s.press("C-u")
	s.wantsLast("node-a>")
	s.resize(110, 30)

	s.enter("bird show route | less")
	s.wants("(END)")
	s.press("C-c")
	s.wants("(END)")
	eventually(t, time.Minute, func() string { // it drops what is typed while it takes Ctrl-C
		if strings.Contains(s.shows(), "(END)") {
			s.press("q")
			time.Sleep(time.Second)
			return "the pager does not end"
		}
		return ""
	})
	s.wantsLast("node-a>")
	s.enter("clear")
	s.wants("unknown command")
	s.press("C-l")
	s.enter("ping -c 0 127.0.0.1 | head -1") // which ends first
	s.wants("1  answered in")
	s.wantsLast("node-a>")
	s.enter("help | grep -c nothing-like-this")
	s.wants("\n0\n")
	s.wantsLast("node-a>")

	s.press("C-l")
	const route = "198.51.100.0/24"
	s.enter("watch -n 1 route " + route)
	s.wants("no such route")
	mustSandbox(t, "exec", "node-a", "--", "ip", "route", "add", "blackhole", route)
	t.Cleanup(func() { mustSandbox(t, "exec", "node-a", "--", "ip", "route", "del", "blackhole", route) })
	s.wants("(was fail)")
	s.press("C-c")
	s.wantsLast("node-a>")

	s.enter("node node-b")
	s.wantsLast("node-b>")
	s.enter("ping 127.0.0.1")
	s.wants("127.0.0.1: 5 packets sent, 5 came back")
	s.wantsLast("node-b>")
	s.enter("exit")
	s.left(0)
	nothingLeft(t)

	s.client("shell --node node-a")
	s.wantsLast("node-a>")
	s.press("Up")
	s.wantsLast("node-a> exit")
	s.press("Up")
	s.wantsLast("node-a> ping 127.0.0.1")
	s.press("C-c", "C-d")
	s.left(0)
	if info, err := os.Stat(s.file("calico-probe/history")); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the history: %v, %v", info, err)
	}
	nothingLeft(t)
}

// TestShellIdles requires that an idle prompt ends the session.
func TestShellIdles(t *testing.T) {
	slow(t)
	s := newScreen(t)
	s.client("shell --node node-a --idle 3s")
	s.wantsLast("node-a>")
	s.enter("ping -i 1s 127.0.0.1") // longer than that: it is not idle
	s.wants("no input for 3s")
	if answered := strings.Count(s.shows(), "answered in"); answered != 5 {
		t.Errorf("the command was cut after %d lines", answered)
	}
	s.left(0)
	nothingLeft(t)
}

// TestShellGivesBackTheTerminal ends sessions in every way, at the prompt and during a command. The terminal must be
// restored.
func TestShellGivesBackTheTerminal(t *testing.T) {
	slow(t)
	for _, c := range []struct {
		signal syscall.Signal
		exit   int
	}{{syscall.SIGTERM, 143}, {syscall.SIGHUP, 129}, {syscall.SIGKILL, 137}} {
		t.Run(c.signal.String(), func(t *testing.T) {
			s := newScreen(t)
			s.client("shell --node node-a")
			s.wantsLast("node-a>")
			s.types("half a li")
			s.wantsLast("node-a> half a li")
			s.signal(c.signal)
			s.left(c.exit)
			s.client("shell --node node-a")
			s.wantsLast("node-a>")
			s.enter("ping -c 0 127.0.0.1")
			s.wants("answered")
			s.signal(c.signal)
			s.left(c.exit)
		})
	}
	t.Run("stopped and continued", func(t *testing.T) {
		s := newScreen(t)
		s.client("shell --node node-a")
		s.wantsLast("node-a>")
		s.types("help pi")
		s.wantsLast("node-a> help pi") // else the shell behind it reads that
		s.signal(syscall.SIGSTOP)
		s.wants("Stopped")
		s.enter("fg")
		s.wants("node-a> help pi")
		s.press("Tab", "Enter")
		s.wants("ping an address")
		s.press("C-d")
		s.wantsLast("$")
	})
	t.Run("plain", func(t *testing.T) {
		s := newScreen(t)
		s.begin("env TERM=dumb " + file("bin/calico-probe") + " shell")
		s.wantsLast("node (number or name; Enter = node-a):")
		s.enter("1")
		s.wantsLast("node-a>")
		s.types("dropped")
		s.press("C-c")
		s.wants("dropped^C")
		s.wantsLast("node-a>")
		s.enter("help ping")
		s.wants("ping an address")
		s.enter("ping -c 0 127.0.0.1")
		s.wants("answered")
		s.press("C-c")
		s.wantsLast("node-a>")
		s.press("C-d")
		s.left(0)
	})
	t.Run("piped", func(t *testing.T) {
		s := newScreen(t)
		s.client("shell --node node-a | cat")
		s.wantsLast("node-a>")
		s.enter("help ping")
		s.wants("ping an address")
		s.press("C-d")
		s.left(0)
	})
	t.Run("lost", func(t *testing.T) {
		s := newScreen(t)
		s.client("shell --node node-a")
		s.wantsLast("node-a>")
		s.must("kill-server")
		nothingLeft(t)
	})
	nothingLeft(t)
}

// TestTerminalAfterPanic has commands and completions panic in a shell without nodes.
func TestTerminalAfterPanic(t *testing.T) {
	slow(t)
	binary := t.TempDir() + "/prompt.test"
	if out, err := exec.CommandContext(t.Context(), "go", "test", "-c", "-o", binary,
		"../../internal/prompt").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	for name, c := range map[string]struct {
		typed string
		key   string
	}{"command": {"panic", "Enter"}, "completion": {"panic ", "Tab"}} {
		t.Run(name, func(t *testing.T) {
			s := newScreen(t, "SHELL_TEST_TERMINAL=1")
			s.begin(binary + " -test.run '^TestAtTerminal$' 2>errors")
			s.wantsLast("at>")
			s.types(c.typed)
			s.press(c.key)
			s.left(2)
			if b, err := os.ReadFile(s.file("errors")); err != nil || !strings.Contains(string(b), "as the test wants it") {
				t.Errorf("it did not panic as it was to: %v\n%s", err, b)
			}
		})
	}
	t.Run("said beside a prompt", func(t *testing.T) {
		s := newScreen(t, "SHELL_TEST_TERMINAL=1")
		s.begin(binary + " -test.run '^TestAtTerminal$'")
		s.wantsLast("at>")
		s.enter("later")
		s.types("half a li")
		s.wants("said meanwhile")
		s.wantsLast("at> half a li")
		s.types("ne")
		s.wantsLast("at> half a line")
		s.press("C-c", "C-d")
		s.left(0)
	})
}

// TestShellScript requires the same commands without a prompt, and an exit code.
func TestShellScript(t *testing.T) {
	a := call(t, "shell", "--node", "node-a", "-c", "ping 127.0.0.1 | cat; run node-ready")
	if a.exit != 0 || !strings.Contains(a.stdout, "127.0.0.1: ") || !strings.Contains(a.stdout, "node-ready") {
		t.Errorf("exit %d\n%s%s", a.exit, a.stdout, a.stderr)
	}
	a = call(t, "shell", "--node", "node-a", "-c", "ping 192.0.2.1; ping 127.0.0.1 | grep nothing-like-this")
	if a.exit != 3 || !strings.Contains(a.stderr, "ping 192.0.2.1: ") || strings.Contains(a.stdout, "calico-probe:") {
		t.Errorf("exit %d\n%s%s", a.exit, a.stdout, a.stderr)
	}
	a = call(t, "shell", "--node", "node-a", "-c", "ping 127.0.0.1; pnig")
	if a.exit != 2 || a.stdout != "" || !strings.Contains(a.stderr, `did you mean "ping"?`) {
		t.Errorf("exit %d\n%s%s", a.exit, a.stdout, a.stderr)
	}
	nothingLeft(t)

	s := newScreen(t)
	if err := os.WriteFile(s.file("script"), []byte("# questions\nping 127.0.0.1\n\nhelp ping\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	s.client("shell --node node-a <" + s.file("script"))
	s.wants("127.0.0.1: ")
	s.left(0)
	s.client("shell -c 'ping 127.0.0.1'") // on a terminal the node can be chosen
	s.wantsLast("node (number or name; Enter = node-a):")
	s.enter("node-b")
	s.wants("127.0.0.1: ")
	s.left(0)
	nothingLeft(t)
}
