//go:build e2e

package e2e

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/calico-probe/calico-probe/internal/mesh"
	reports "github.com/calico-probe/calico-probe/internal/report"
)

// dropped has node-b drop the packets that an nft rule matches. The returned function removes the rule.
func dropped(t testing.TB, rule string) (back func()) {
	t.Helper()
	mustSandbox(t, "exec", "node-b", "--", "nft", "table ip watched { chain in { type filter hook prerouting priority -400; "+rule+" drop; }; }")
	back = func() {
		_, _ = sandbox("exec", "--name", clusterName, "node-b", "--", "nft", "delete table ip watched") // it may be gone
	}
	t.Cleanup(back)
	return back
}

// TestMeshOfTwo breaks the path between two nodes, and requires that the report names it.
func TestMeshOfTwo(t *testing.T) {
	for _, c := range []struct {
		name, rule string
		want       []string
	}{
		{"nothing", "", nil},
		{"the node", "ip saddr 10.88.0.11 ip daddr 10.88.0.12", []string{"node", "tcp"}},
		{"TCP", "ip saddr 10.88.0.11 tcp dport 10250", []string{"tcp"}},
		{"large packets to pods", "ip saddr 10.88.0.11 ip daddr 10.244.0.0/16 ip length > 1400", []string{"mtu"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			if c.rule != "" {
				defer dropped(t, c.rule)()
			}
			a := call(t, "mesh", "--profile", "deep", "-o", "json")
			var r mesh.Report
			if err := json.Unmarshal([]byte(a.stdout), &r); err != nil {
				t.Fatalf("%v: %s%s", err, a.stdout, a.stderr)
			}
			var got []string
			for _, p := range r.Planes {
				for _, f := range p.Findings {
					if f.Kind != mesh.KindPair || !slices.Contains(f.Names, "node-a") || !slices.Contains(f.Names, "node-b") {
						t.Errorf("%+v", f)
					}
					got = append(got, p.Name)
				}
			}
			exit := reports.ExitHealthy
			if c.want != nil {
				exit = reports.ExitFault
			}
			if !slices.Equal(got, c.want) || a.exit != exit || r.Exit != exit || len(r.Planes) != len(mesh.Planes()) {
				t.Errorf("exit %d, %q, want %q\n%s", a.exit, got, c.want, a.stdout)
			}
		})
	}
	nothingLeft(t)
}

// TestWatchInLines has a path fail and recover, without a terminal.
func TestWatchInLines(t *testing.T) {
	var errs bytes.Buffer
	cmd, out := started(t, &errs, "mesh", "--watch", "--interval", "1s", "--for", "2m")
	waitFor(t, out, "round ")
	back := dropped(t, "ip saddr 10.88.0.11 ip daddr 10.88.0.12")
	waitFor(t, out, "node: from node-a to node-b fails: ")
	back()
	waitFor(t, out, "node: from node-a to node-b works again after ")
	dropped(t, "ip saddr 10.88.0.11 ip daddr 10.244.0.0/16 icmp type echo-request")
	waitFor(t, out, "pod: from node-a to node-b fails: ")
	if err := cmd.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	waitFor(t, out, ": 4 paths, 1 fail")
	_ = cmd.Wait()
	if code := cmd.ProcessState.ExitCode(); code != reports.ExitFault {
		t.Errorf("exit %d\n%s", code, errs.Bytes())
	}
	if found := left(t); found != "" {
		t.Error(found)
	}
}

// TestWatchEnds requires that a watch ends automatically, with the exit code of the last round.
func TestWatchEnds(t *testing.T) {
	a := call(t, "mesh", "--watch", "--interval", "1s", "--for", "8s")
	if a.exit != reports.ExitHealthy || !strings.Contains(a.stdout, ": 4 paths, all work") || a.took < 8*time.Second {
		t.Errorf("exit %d after %v\n%s%s", a.exit, a.took, a.stdout, a.stderr)
	}
	if found := left(t); found != "" {
		t.Error(found)
	}
}

// TestWatchKilled requires that a killed watch leaves nothing behind.
func TestWatchKilled(t *testing.T) {
	cmd, out := started(t, nil, "mesh", "--watch", "--interval", "1s")
	waitFor(t, out, "round ")
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait()
	if left(t) == "" {
		t.Error("its probes were gone before anything could remove them")
	}
	eventually(t, 90*time.Second, func() string { return left(t) })
}

// TestWatchOnScreen watches on a terminal: a path fails and recovers, with keys, window sizes, and every way to exit.
func TestWatchOnScreen(t *testing.T) {
	s := newScreen(t)
	const ok = `node-a +node-b +node +ok +0%`
	begin := func() {
		s.client("mesh --watch --interval 1s")
		s.finds(ok)
		s.wants("4 paths: all work") // both nodes are heard
	}
	begin()
	back := dropped(t, "ip saddr 10.88.0.11 ip daddr 10.88.0.12")
	s.wants("4 paths: 2 fail")
	s.finds(`> node-[ab] +node-[ab] +node +fails +[1-9][0-9]*% +- .*×`) // the worst first: both ways lose the same
	s.press("Space")
	s.finds(`seen last: none of 3 packets came back`)
	s.finds(`fails since [0-9:]+ UTC, for [0-9]+s`)
	back()
	s.finds(`node-a +node-b +node +ok +[1-9][0-9]*% .*×.*[▁-█]`)
	s.finds(`works again since`)
	s.press("Space")
	s.types("/node-c")
	s.finds(`node: node-c_`)
	eventually(t, time.Minute, func() string {
		if shown := s.shows(); strings.Contains(shown, " ok ") {
			return "rows of other nodes are shown:\n" + shown
		}
		return ""
	})
	s.press("Escape")
	s.finds(ok)
	s.types("p")
	s.wants("PAUSED")
	s.types("p")
	s.resize(70, 12)
	s.finds(`q quit`)
	s.resize(110, 30)
	s.finds(ok)
	s.types("q")
	s.left(0)
	s.finds(`after [0-9ms]+, in round [0-9]+: 4 paths, all work`)
	if found := left(t); found != "" {
		t.Error(found)
	}

	for _, end := range []struct {
		name string
		do   func()
		code int
	}{
		{"Ctrl-C", func() { s.press("C-c") }, 0},
		{"SIGTERM", func() { s.signal(syscall.SIGTERM) }, 143},
		{"SIGINT", func() { s.signal(syscall.SIGINT) }, 130},
	} {
		begin()
		end.do()
		s.left(end.code)
		if found := left(t); found != "" {
			t.Errorf("after %s: %s", end.name, found)
		}
	}
	begin()
	pid := s.pid()
	s.must("kill-server") // as a window that is closed
	eventually(t, 60*time.Second, func() string {
		if err := syscall.Kill(pid, 0); !errors.Is(err, syscall.ESRCH) {
			return "it has not ended"
		}
		return left(t)
	})
}

// TestWatchRefuses tests flags that a watch refuses together.
func TestWatchRefuses(t *testing.T) {
	for _, args := range [][]string{
		{"--watch", "--interval", "10ms"}, {"--interval", "5s"}, {"--for", "5s"}, {"--watch", "-o", "json"},
		{"--watch", "--profile", "deep"}, {"--watch", "--for", "1s"}, {"--profile", "quick"}, {"--watch", "--timeout", "1m"},
	} {
		a := call(t, append([]string{"mesh"}, args...)...)
		if a.exit != reports.ExitUsage || strings.Count(a.stderr, "\n") != 1 {
			t.Errorf("%q: exit %d: %s", args, a.exit, a.stderr)
		}
	}
}
