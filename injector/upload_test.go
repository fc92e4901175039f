package injector

import (
	"bytes"
	"compress/gzip"
	"context"
	"crypto/rand"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/probe/facts"
	"github.com/calico-probe/calico-probe/probe/must"
)

// standIn answers a session like a probe, and prints its arguments. End-to-end tests upload the real probe.
const standIn = `#!/bin/sh
[ "$1" != version ] || exit 0
rm -r "${0%/*}"
read plan
echo '{"seq":0,"type":"start","start":{"v":1,"access":["'"$*"'"]}}'
echo '{"seq":1,"type":"end","end":{}}'
while read more; do :; done
`

// laden returns options with an embedded probe and a run ID for this test.
func laden(t *testing.T, program string) Options {
	t.Helper()
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	must.Get(io.WriteString(w, program))(t)
	must.Do(t, w.Close())
	o := options
	o.Note = func(string) {} // the tests need not run as root
	// Folders on the machine contain the run ID: tests of another clone may run at the same time.
	o.Run, o.Embedded, o.Arch, o.Node = "test"+strings.ReplaceAll(t.Name(), "/", "-")+rand.Text(), b.Bytes(),
		"amd64", "it's"
	return o
}

// here returns a shell on this machine.
func here(shell string, env ...string) remoteShell {
	return func(ctx context.Context, script string, in io.Reader, out, errs io.Writer) error {
		if _, err := exec.LookPath(shell); err != nil {
			return errNoShell
		}
		cmd := exec.CommandContext(ctx, shell, "-c", script)
		cmd.Env = append(os.Environ(), env...)
		return run(cmd, in, out, errs)
	}
}

// anywhere accepts every machine.
func anywhere(string) *PlacementError { return nil }

var errNoShell = errors.New("no such shell on this machine")

// noLeft fails if a run's folder still exists on this machine.
func noLeft(t *testing.T, o Options) {
	t.Helper()
	for _, dir := range []string{"/run", "/tmp", "/var/tmp", os.Getenv("HOME"), "/dev/shm"} {
		if _, err := os.Stat(filepath.Join(dir, "calico-probe-"+o.Run)); err == nil {
			t.Errorf("left in %s", dir)
		}
	}
}

// tools returns a folder with only these programs, for PATH.
func tools(t *testing.T, names ...string) string {
	t.Helper()
	dir := t.TempDir()
	for _, name := range names {
		at, err := exec.LookPath(name)
		if err != nil {
			t.Skip(err)
		}
		must.Do(t, os.Symlink(at, filepath.Join(dir, name)))
	}
	return "PATH=" + dir
}

func onUnix(t *testing.T) {
	t.Helper()
	if runtime.GOOS == "windows" {
		t.Skip("no POSIX shell here")
	}
}

// TestCarry runs the whole script in every available shell: packed, plain without gzip, and after noisy login files.
func TestCarry(t *testing.T) {
	onUnix(t)
	t.Parallel()
	bare := tools(t, "chmod", "head", "mkdir", "rm", "sh", "wc")
	for name, l := range map[string]remoteShell{
		"dash": here("dash"), "bash": here("bash"), "sh": here("sh"), "no gzip, no df, no timeout": here("/bin/sh", bare),
		"talkative": func(ctx context.Context, script string, in io.Reader, out, errs io.Writer) error {
			return here("sh")(ctx, "echo Welcome; echo '{}'; "+script, in, out, errs)
		},
		"without an end of line": func(ctx context.Context, script string, in io.Reader, out, errs io.Writer) error {
			return here("sh")(ctx, "printf 'Last login: '; "+script, in, out, errs)
		},
		"with a long line before it": func(ctx context.Context, script string, in io.Reader, out, errs io.Writer) error {
			return here("sh")(ctx, "head -c 100000 /dev/zero | tr '\\0' x; echo; "+script, in, out, errs)
		},
		"quoted once more": func(ctx context.Context, script string, in io.Reader, out, errs io.Writer) error {
			return here("sh")(ctx, "exec sh -c "+probe.Quote(script), in, out, errs)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o := laden(t, standIn)
			s, err := upload(t.Context(), o, "ssh", "somewhere",
				view{root: "/", proc: "/proc", only: []string{"/tmp", "/not here"}}, l, anywhere)
			if errors.Is(err, errNoShell) {
				t.Skip(err)
			}
			if err != nil {
				t.Fatal(err)
			}
			must.Get(s.Send(t.Context(), probe.Request{Type: probe.RequestPlan, Plan: &probe.Plan{Run: o.Run}}))(t)
			ev, err := s.Next(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			noLeft(t, o) // the probe has removed itself
			if got, want := ev.Start.Access[0], "session --unlink --only /none,/tmp --root / --proc /proc --node it's --method ssh --life 2m10s"; got != want {
				t.Errorf("started with %s, want %s", got, want)
			}
			if ev, err = s.Next(t.Context()); err != nil || ev.Type != probe.EventEnd {
				t.Errorf("%v %v", ev, err)
			}
			if err := s.Close(); err != nil {
				t.Error(err)
			}
			noLeft(t, o)
		})
	}
}

// TestSudo requires a login without root to use sudo if allowed, and a message if not.
func TestSudo(t *testing.T) {
	onUnix(t)
	t.Parallel()
	const notRoot = "the login is not root ('id -u'), and 'sudo -n' fails: the probe cannot read files that only root may read"
	for sudo, c := range map[string]struct{ way, note string }{
		`[ "$1" = -n ] || exit 1; shift; WAS=by-sudo; export WAS; exec "$@"`: {"by-sudo", ""},
		"exit 1":                       {"", notRoot},
		`[ "$2" = true ] && exec "$@"`: {"", notRoot}, // sudo allows some programs, but not the probe
	} {
		path := tools(t, "chmod", "head", "mkdir", "rm", "sh", "wc", "gzip")
		for name, script := range map[string]string{"sudo": sudo, "id": "echo 1000"} {
			if err := os.WriteFile(filepath.Join(strings.TrimPrefix(path, "PATH="), name), []byte("#!/bin/sh\n"+script+"\n"),
				0o755); err != nil {
				t.Fatal(err)
			}
		}
		o := laden(t, strings.Replace(standIn, `"$*"`, `"$WAS"`, 1))
		note := ""
		o.Note = func(text string) { note = text }
		s, err := upload(t.Context(), o, "ssh", "", view{root: "/", proc: "/proc"}, here("/bin/sh", path), anywhere)
		if err != nil {
			t.Fatal(err)
		}
		must.Get(s.Send(t.Context(), probe.Request{Type: probe.RequestPlan, Plan: &probe.Plan{}}))(t)
		if ev, err := s.Next(t.Context()); err != nil || ev.Start.Access[0] != c.way || note != c.note {
			t.Errorf("%+v %v %q, want %+v", ev.Start, err, note, c)
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
		noLeft(t, o)
	}
}

// TestUploadInVain requires one sentence for each obstacle on the node, and no leftovers.
func TestUploadInVain(t *testing.T) {
	onUnix(t)
	t.Parallel()
	short := tools(t, "chmod", "mkdir", "rm", "sh", "wc")
	if err := os.WriteFile(filepath.Join(strings.TrimPrefix(short, "PATH="), "head"), []byte("#!/bin/sh\nread a; read b; echo \"$a\"; echo \"$b\"\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	fills := tools(t, "chmod", "mkdir", "rm", "sh", "wc", "sleep")
	must.Do(t, os.WriteFile(filepath.Join(strings.TrimPrefix(fills, "PATH="), "head"), []byte(
		"#!/bin/sh\n[ -e \"$0.again\" ] && exec /usr/bin/head \"$@\"\n: >\"$0.again\"; exit 1\n"), 0o755))
	for name, c := range map[string]struct {
		program string
		shell   remoteShell
		reason  facts.Reason
		says    string
	}{
		// The script must read the rest: a sending client reads no reply.
		"fills up":     {strings.Repeat(standIn, 1<<14), here("/bin/sh", fills), facts.ReasonShell, "the disk is full"},
		"does not run": {"#!/nowhere\n", here("sh"), facts.ReasonShell, "does not run there"},
		"no tools":     {standIn, here("/bin/sh", tools(t, "mkdir", "chmod")), facts.ReasonShell, "lacks the program head"},
		// A slightly truncated file may still run.
		"not whole": {standIn, here("/bin/sh", short), facts.ReasonShell, "the upload is incomplete"},
		"no room": {standIn, func(ctx context.Context, script string, in io.Reader, out, errs io.Writer) error {
			return here("sh")(ctx, "df() { echo; echo a 9 9 0; }; "+script, in, out, errs)
		}, facts.ReasonShell, "no folder with"},
		"nonsense": {standIn, func(ctx context.Context, script string, in io.Reader, out, errs io.Writer) error {
			return here("sh")(ctx, "echo() { printf '%s huh\\n' ${1%% *}; }; "+script, in, out, errs)
		}, facts.ReasonShell, "unexpected reply"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o := laden(t, c.program)
			_, err := upload(t.Context(), o, "ssh", "", view{root: "/"}, c.shell, anywhere)
			pe, ok := errors.AsType[*PlacementError](err)
			if !ok || pe.Reason != c.reason || !strings.Contains(pe.Text, c.says) || strings.Contains(pe.Text, "\n") {
				t.Errorf("%v, want %s %q", err, c.reason, c.says)
			}
			eventuallyNoLeft(t, o)
		})
	}
	o := laden(t, standIn)
	o.Embedded = nil
	if _, err := upload(t.Context(), o, "ssh", "", view{}, nil, anywhere); err == nil ||
		!strings.Contains(err.Error(), "no embedded probe for amd64") {
		t.Error(err)
	}
}

// eventuallyNoLeft waits until a script notices its lost connection.
func eventuallyNoLeft(t *testing.T, o Options) {
	t.Helper()
	for range 50 {
		found, err := filepath.Glob("/[rtd]*/*/calico-probe-" + o.Run)
		more, _ := filepath.Glob("/[rt]*/calico-probe-" + o.Run)
		if err != nil || len(found)+len(more) == 0 {
			break
		}
		time.Sleep(100 * time.Millisecond)
	}
	noLeft(t, o)
}

// TestCutWhileCarrying cuts the connection in the middle of the upload.
func TestCutWhileCarrying(t *testing.T) {
	onUnix(t)
	t.Parallel()
	o := laden(t, standIn)
	var half remoteShell = func(ctx context.Context, script string, in io.Reader, out, errs io.Writer) error {
		return here("sh")(ctx, script, io.LimitReader(in, int64(len(o.Embedded)/2)), out, errs)
	}
	if _, err := upload(t.Context(), o, "ssh", "", view{root: "/"}, half, anywhere); err == nil {
		t.Error("half a probe was taken for a whole one")
	}
	eventuallyNoLeft(t, o)
}

// TestShellKilled kills the shell of a running probe. Its trap then removes nothing, so the probe must have removed its
// file.
func TestShellKilled(t *testing.T) {
	onUnix(t)
	t.Parallel()
	const killer = `#!/bin/sh
[ "$1" != version ] || exit 0
case "$*" in *--unlink*) rm -r "${0%/*}";; esac
read plan
kill -9 $PPID
`
	o := laden(t, killer)
	s, err := upload(t.Context(), o, "ssh", "", view{root: "/"}, here("sh"), anywhere)
	if err != nil {
		t.Fatal(err)
	}
	each := func(probe.Event) bool { return true }
	err = s.Ask(t.Context(), probe.Request{Type: probe.RequestPlan, Plan: &probe.Plan{}}, each)
	if err == nil {
		t.Error("the probe's shell was killed, and its answer is whole")
	}
	noLeft(t, o)
	if err := s.Close(); err != nil {
		t.Log(err)
	}
}

func TestScriptIsOneLine(t *testing.T) {
	t.Parallel()
	s := scriptFor(laden(t, standIn), "ssh", view{root: "/", proc: "/proc"}, 7)
	s = strings.ReplaceAll(s, `'it'\''s'`, "") // quoted as every shell reads it
	s = strings.ReplaceAll(s, "! ", "")        // csh leaves this unchanged
	if strings.ContainsAny(s, "\n!\\") {
		t.Errorf("a login shell may trip over this: %s", s)
	}
}

// TestStandsStill sends nothing and keeps the connection open, as after a silent cut. The script must exit on its own,
// with a shortened timeout.
func TestStandsStill(t *testing.T) {
	onUnix(t)
	t.Parallel()
	o := laden(t, standIn)
	for _, c := range []struct{ sent, limit, word string }{
		{"", "-lt 15", "on"},
		{"go\n", "-lt 60", "broken"},
	} {
		in, feed, err := os.Pipe()
		if err != nil {
			t.Fatal(err)
		}
		defer in.Close()
		defer feed.Close()
		must.Get(feed.WriteString(c.sent))(t)
		script := strings.NewReplacer(c.limit, "-lt 1", "-lt 10", "-lt 1").Replace(
			scriptFor(o, "ssh", view{root: t.TempDir(), proc: "/proc"}, len(standIn)))
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		cmd := exec.CommandContext(ctx, "/bin/sh", "-c", script)
		cmd.Stdin, cmd.Env = in, append(os.Environ(), tools(t, "chmod", "head", "mkdir", "rm", "sh", "sleep", "wc"))
		out, err := cmd.Output()
		words := strings.Split(strings.TrimSpace(string(out)), o.Run+" ")
		if err == nil || ctx.Err() != nil || strings.TrimSpace(words[len(words)-1]) != c.word {
			t.Errorf("%s: %v", out, err)
		}
	}
	noLeft(t, o)
}
