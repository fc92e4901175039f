package report

import (
	"strings"
	"testing"
	"time"

	"github.com/calico-probe/calico-probe/probe"
)

// TestChanges plays what a watched check answered from one time to the next.
func TestChanges(t *testing.T) {
	t.Parallel()
	up := func(s probe.Status, target, saw string) probe.Result {
		return probe.Result{Check: "bgp-session", Target: target, Status: s, Saw: saw}
	}
	b, c := "node-b 10.0.0.2", "node-c 10.0.0.3"
	good := []probe.Result{up(probe.OK, b, "Established for 5m2s, 3 routes taken, 1 given"), up(probe.OK, c, "Established for 5m2s, 3 routes taken, 1 given")}
	var out strings.Builder
	w := NewChanges(&out, false)
	now := time.Date(2026, 11, 21, 3, 0, 0, 0, time.UTC)
	for _, step := range []struct {
		name    string
		after   time.Duration
		answers []probe.Result
		lost    string
		want    []string // what each line has
	}{
		{"first", 0, good, "", []string{"03:00:00  ok       bgp-session        node-b 10.0.0.2", "node-c"}},
		{"older, in another order", 2 * time.Second, []probe.Result{up(probe.OK, c, "Established for 5m4s, 4 routes taken, 1 given"), up(probe.OK, b, "Established for 5m4s, 4 routes taken, 1 given")}, "", nil},
		{"one is down", 2 * time.Second, []probe.Result{up(probe.Fail, b, "start Connect for 1s"), good[1]}, "", []string{"03:00:04  fail     bgp-session        node-b 10.0.0.2                    start Connect for 1s (was ok)"}},
		{"still", 2 * time.Second, []probe.Result{up(probe.Fail, b, "start Connect for 3s"), good[1]}, "", nil},
		{"down otherwise", 2 * time.Second, []probe.Result{up(probe.Fail, b, `start Active for 3s, last error "Connection refused"`), good[1]}, "", []string{"refused"}},
		{"lost", 2 * time.Second, nil, "nothing heard", []string{"unknown  probe-answered     -                                  nothing heard"}},
		{"still lost", 2 * time.Second, nil, "nothing heard at all", nil},
		{"back", 2 * time.Second, good, "", []string{"it answers again", "Established for 5m2s, 3 routes taken, 1 given (was fail)"}},
		{"gone", 2 * time.Second, good[:1], "", []string{"gone     bgp-session        node-c 10.0.0.3                    was ok: Established"}},
		{"none is taken", 2 * time.Second, []probe.Result{up(probe.OK, b, "Established for 5m2s, 0 routes taken, 1 given")}, "", []string{"0 routes taken"}},
		{"half a minute", 30 * time.Second, []probe.Result{up(probe.OK, b, "Established for 6m2s, 0 routes taken, 1 given")}, "", nil},
		{"a minute", 30 * time.Second, []probe.Result{up(probe.OK, b, "Established for 7m2s, 0 routes taken, 1 given")}, "", []string{"03:01:18  nothing changed for 1m0s, asked 2 times"}},
		{"new", 2 * time.Second, good, "", []string{"3 routes taken", "node-c 10.0.0.3                    Established for 5m2s, 3 routes taken, 1 given (new)"}},
	} {
		now = now.Add(step.after)
		out.Reset()
		if err := w.Round(now, step.answers, step.lost); err != nil {
			t.Fatal(err)
		}
		lines := strings.Split(strings.TrimSuffix(out.String(), "\n"), "\n")
		if out.Len() == 0 {
			lines = nil
		}
		ok := len(lines) == len(step.want)
		for i, text := range step.want {
			ok = ok && strings.Contains(lines[i], text)
		}
		if !ok {
			t.Errorf("%s: %d lines, want %d with %q\n%s", step.name, len(lines), len(step.want), step.want, out.String())
		}
	}
}

// TestLostAtFirst wants the first answers whole when the first time brought none.
func TestLostAtFirst(t *testing.T) {
	t.Parallel()
	var out strings.Builder
	w := NewChanges(&out, false)
	now := time.Date(2026, 11, 21, 3, 0, 0, 0, time.UTC)
	for _, lost := range []string{"no way onto the node", "no way onto the node", ""} {
		answers := []probe.Result{{Check: "node-swap", Status: probe.OK, Saw: "no swap"}}
		if lost != "" {
			answers = nil
		}
		if err := w.Round(now, answers, lost); err != nil {
			t.Fatal(err)
		}
	}
	if got := out.String(); strings.Count(got, "\n") != 3 || !strings.Contains(got, "ok       node-swap          -                                  no swap\n") {
		t.Error(got)
	}
}

func TestMeaning(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		a, b  string
		alike bool
	}{
		{"answers in 1.2ms", "answers in 13ms", true},
		{"busy for 3 s", "busy for 4 s", true},
		{"45% used", "46% used", true},
		{"load 1.20 of 4 (0.3 per CPU)", "load 1.30 of 4 (0.4 per CPU)", true},
		{"since 2026-11-21T03:00:01Z", "since 2026-11-21T03:00:02Z", true},
		{"10.0.0.1 refused", "10.0.0.2 refused", false},
		{"10.0.0.1:179: refused", "10.0.0.2:179: refused", false},
		{"fd00::1, then nothing", "fd00::2, then nothing", false},
		{"route via 10.0.0.0/24", "route via 10.0.1.0/24", false},
		{"by eth0", "by eth1", false},
		{"lost 0 of 5", "lost 1 of 5", false},
		{"heard 0 s ago", "heard 1 s ago", true},
		{"2 of 2 peers established", "1 of 2 peers established", true}, // the status tells
	} {
		if got := meaning(c.a) == meaning(c.b); got != c.alike {
			t.Errorf("%q and %q: alike %v (%q, %q)", c.a, c.b, got, meaning(c.a), meaning(c.b))
		}
	}
}
