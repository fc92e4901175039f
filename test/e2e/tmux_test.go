//go:build e2e

package e2e

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// screen is a terminal with a bash in it, driven by tmux.
type screen struct {
	t      testing.TB
	socket string // of a tmux server of its own
	dir    string // for what its commands write
}

// newScreen begins one of 110 columns and 30 rows, with these variables set.
func newScreen(t testing.TB, env ...string) *screen {
	t.Helper()
	s := &screen{t: t, dir: t.TempDir(), socket: fmt.Sprintf("%s-%d-%d", clusterName, os.Getpid(), time.Now().UnixNano())}
	t.Cleanup(func() { _, _ = s.tmux(context.Background(), "kill-server") }) // it may have ended
	args := []string{"-f", "/dev/null", "new-session", "-d", "-x", "110", "-y", "30"}
	for _, v := range append([]string{
		"PS1=$ ", "HISTFILE=", "KUBECONFIG=" + os.Getenv("KUBECONFIG"), "XDG_STATE_HOME=" + s.dir, "LESS=",
	}, env...) {
		args = append(args, "-e", v)
	}
	s.must(append(args, "bash", "--norc")...)
	s.wantsLast("$")
	return s
}

func (s *screen) tmux(ctx context.Context, args ...string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	out, err := exec.CommandContext(ctx, "tmux", append([]string{"-L", s.socket}, args...)...).CombinedOutput()
	return string(out), err
}

func (s *screen) must(args ...string) string {
	s.t.Helper()
	out, err := s.tmux(s.t.Context(), args...)
	if err != nil {
		s.t.Fatalf("tmux %s: %v\n%s", args[0], err, out)
	}
	return out
}

// types types a text as it is.
func (s *screen) types(text string) { s.t.Helper(); s.must("send-keys", "-l", text) }

// press presses keys by their names in tmux: Enter, C-c, Tab.
func (s *screen) press(keys ...string) {
	s.t.Helper()
	s.must(append([]string{"send-keys"}, keys...)...)
}

// enter types a line.
func (s *screen) enter(line string) { s.t.Helper(); s.types(line); s.press("Enter") }

// anew clears the screen and types a line, so that a later wait matches only the line's output. It first waits for
// bash's prompt.
func (s *screen) anew(line string) {
	s.t.Helper()
	s.wantsLast("$")
	s.enter("clear")
	eventually(s.t, 60*time.Second, func() string {
		if shown := s.shows(); strings.TrimSpace(shown) != "$" {
			return "it is not cleared:\n" + shown
		}
		return ""
	})
	s.enter(line)
}

// shows is what is to be seen, without empty lines at its end, and lines that are longer
// than the screen is wide in one.
func (s *screen) shows() string {
	s.t.Helper()
	return strings.TrimRight(s.must("capture-pane", "-p", "-J"), "\n")
}

// wants waits until the screen shows a text.
func (s *screen) wants(text string) {
	s.t.Helper()
	eventually(s.t, 60*time.Second, func() string {
		if shown := s.shows(); !strings.Contains(shown, text) {
			return fmt.Sprintf("%q is not to be seen:\n%s", text, shown)
		}
		return ""
	})
}

// finds waits until the screen shows what an expression matches.
func (s *screen) finds(expression string) (found []string) {
	s.t.Helper()
	eventually(s.t, 60*time.Second, func() string {
		shown := s.shows()
		if found = regexp.MustCompile(expression).FindStringSubmatch(shown); found == nil {
			return fmt.Sprintf("%q is not to be seen:\n%s", expression, shown)
		}
		return ""
	})
	return found
}

// wantsLast waits until the last line on the screen is a text, but for spaces.
func (s *screen) wantsLast(text string) {
	s.t.Helper()
	eventually(s.t, 60*time.Second, func() string {
		shown := s.shows()
		if last := shown[strings.LastIndex(shown, "\n")+1:]; strings.TrimSpace(last) != text {
			return fmt.Sprintf("the last line is not %q:\n%s", text, shown)
		}
		return ""
	})
}

// begin runs a command in the bash, which keeps the terminal's mode before it and after.
func (s *screen) begin(command string) {
	s.t.Helper()
	script := fmt.Sprintf("#!/bin/sh\necho $$ >%s\nexec %s\n", s.file("pid"), command)
	if err := os.WriteFile(s.file("command"), []byte(script), 0o700); err != nil {
		s.t.Fatal(err)
	}
	s.anew(fmt.Sprintf("cd %s; stty -a >before; ./command; echo left=$?; stty -a >after", s.dir))
}

// client runs calico-probe.
func (s *screen) client(args string) { s.t.Helper(); s.begin(file("bin/calico-probe") + " " + args) }

func (s *screen) file(name string) string { return filepath.Join(s.dir, name) }

// pid is that of what begin has begun.
func (s *screen) pid() int {
	s.t.Helper()
	b, err := os.ReadFile(s.file("pid"))
	if err != nil {
		s.t.Fatal(err)
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(b)))
	if err != nil {
		s.t.Fatal(err)
	}
	return pid
}

// signal sends one to what begin has begun.
func (s *screen) signal(sig syscall.Signal) {
	s.t.Helper()
	if err := syscall.Kill(s.pid(), sig); err != nil {
		s.t.Fatal(err)
	}
}

// resize gives the terminal another size, and waits until those in it are told so: tmux may be late on a busy machine.
func (s *screen) resize(columns, rows uint16) {
	s.t.Helper()
	s.must("resize-window", "-x", fmt.Sprint(columns), "-y", fmt.Sprint(rows))
	tty := strings.TrimSpace(s.must("display-message", "-p", "#{pane_tty}"))
	terminal, err := os.OpenFile(tty, os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		s.t.Fatal(err)
	}
	defer terminal.Close()
	eventually(s.t, time.Minute, func() string {
		size, err := unix.IoctlGetWinsize(int(terminal.Fd()), unix.TIOCGWINSZ)
		if err != nil || size.Col != columns || size.Row != rows {
			return fmt.Sprintf("the terminal has not %d columns and %d rows: %+v %v", columns, rows, size, err)
		}
		return ""
	})
}

// left waits until the command of begin exits with this code, and requires the terminal's original mode.
func (s *screen) left(code int) {
	s.t.Helper()
	s.wants(fmt.Sprintf("left=%d", code))
	read := func(name string) string {
		b, err := os.ReadFile(s.file(name))
		if err != nil {
			return err.Error()
		}
		return string(b)
	}
	before := read("before")
	eventually(s.t, time.Minute, func() string {
		if after := read("after"); after != before {
			return fmt.Sprintf("the terminal was\n%s\nand is\n%s", before, after)
		}
		return ""
	})
	if !strings.Contains(before, " echo ") {
		s.t.Errorf("the terminal's mode was not read: %s", before)
	}
}
