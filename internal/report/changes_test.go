package report

import (
	"fmt"
	"slices"
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
	good := []probe.Result{up(probe.OK, b, "Established for 5m2s, 3 routes taken, 1 given"),
		up(probe.OK, c, "Established for 5m2s, 3 routes taken, 1 given")}
	var out strings.Builder
	w := NewChanges(false)
	now := time.Date(2026, 11, 21, 3, 0, 0, 0, time.UTC)
	for _, step := range []struct {
		name    string
		after   time.Duration
		answers []probe.Result
		lost    string
		want    []string // what each line has
	}{
		{"first", 0, good, "", []string{"03:00:00  ok       bgp-session        node-b 10.0.0.2", "node-c"}},
		{"older, in another order", 2 * time.Second, []probe.Result{up(probe.OK, c,
			"Established for 5m4s, 4 routes taken, 1 given"), up(probe.OK, b, "Established for 5m4s, 4 routes taken, 1 given")}, "", nil},
		{"one is down", 2 * time.Second, []probe.Result{up(probe.Fail, b, "start Connect for 1s"), good[1]}, "",
			[]string{"03:00:04  fail     bgp-session        node-b 10.0.0.2                    start Connect for 1s (was ok)"}},
		{"still", 2 * time.Second, []probe.Result{up(probe.Fail, b, "start Connect for 3s"), good[1]}, "", nil},
		{"down otherwise", 2 * time.Second, []probe.Result{up(probe.Fail, b,
			`start Active for 3s, last error "Connection refused"`), good[1]}, "", []string{"refused"}},
		{"lost", 2 * time.Second, nil, "nothing heard",
			[]string{"unknown  probe-answered     -                                  nothing heard"}},
		{"still lost", 2 * time.Second, nil, "nothing heard at all", nil},
		{"back", 2 * time.Second, good, "", []string{"it answers again",
			"Established for 5m2s, 3 routes taken, 1 given (was fail)"}},
		{"gone", 2 * time.Second, good[:1], "",
			[]string{"gone     bgp-session        node-c 10.0.0.3                    was ok: Established"}},
		{"none is taken", 2 * time.Second, []probe.Result{up(probe.OK, b, "Established for 5m2s, 0 routes taken, 1 given")},
			"", []string{"0 routes taken"}},
		{"half a minute", 30 * time.Second, []probe.Result{up(probe.OK, b, "Established for 6m2s, 0 routes taken, 1 given")},
			"", nil},
		{"a minute", 30 * time.Second, []probe.Result{up(probe.OK, b, "Established for 7m2s, 0 routes taken, 1 given")}, "",
			[]string{"03:01:18  nothing changed for 1m0s, checked 2 times"}},
		{"new", 2 * time.Second, good, "", []string{"3 routes taken",
			"node-c 10.0.0.3                    Established for 5m2s, 3 routes taken, 1 given (new)"}},
	} {
		now = now.Add(step.after)
		out.Reset()
		text, changed := w.Round(now, step.answers, step.lost)
		out.WriteString(text)
		if changed != (len(step.want) > 0 && !strings.Contains(step.want[0], "nothing changed")) {
			t.Errorf("%s: changed %v", step.name, changed)
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

// TestLostAtFirst requires the complete first answers if the first round brought none.
func TestLostAtFirst(t *testing.T) {
	t.Parallel()
	var out strings.Builder
	w := NewChanges(false)
	now := time.Date(2026, 11, 21, 3, 0, 0, 0, time.UTC)
	for _, lost := range []string{"no access to the node", "no access to the node", ""} {
		answers := []probe.Result{{Check: "node-swap", Status: probe.OK, Saw: "no swap"}}
		if lost != "" {
			answers = nil
		}
		text, _ := w.Round(now, answers, lost)
		out.WriteString(text)
	}
	if got := out.String(); strings.Count(got, "\n") != 3 || !strings.Contains(got,
		"ok       node-swap          -                                  no swap\n") {
		t.Error(got)
	}
}

// TestChangesOfATool plays what a tool said from one time to the next: lines, and how it
// went.
func TestChangesOfATool(t *testing.T) {
	t.Parallel()
	said := func(status probe.Status, saw string, lines ...string) []probe.Result {
		out := []probe.Result{{Check: "tool", Target: "10.0.0.12:179", Status: status, Saw: saw}}
		for _, line := range lines {
			first, rest, _ := strings.Cut(line, " ")
			out = append(out, probe.Result{Check: "tool", Target: first, Saw: rest})
		}
		return out
	}
	var many []string
	for port := range 40 {
		many = append(many, fmt.Sprintf("LISTEN 0.0.0.0:%d - kubelet (%d)", 1000+port, 70+port))
	}
	for name, c := range map[string]struct {
		before, after []probe.Result
		first         int      // lines at first
		want          []string // what each line has then
	}{
		"refused from the first": {said(probe.Fail, "refused"), said(probe.Fail, "refused"), 1, nil},
		"refused now": {said(probe.OK, "takes connections", "connected in 1ms"), said(probe.Fail, "refused"), 2,
			[]string{"fail     tool               10.0.0.12:179                      refused (was ok)"}},
		"one more that begins as 40 others do": {
			said(probe.OK, "40 sockets", many...), said(probe.OK, "41 sockets",
				append([]string{"LISTEN 0.0.0.0:22 - sshd (2)"}, many...)...), 41,
			[]string{"0.0.0.0:22 - sshd (2) (new)"},
		},
		"one less": {said(probe.OK, "40 sockets", many...), said(probe.OK, "39 sockets", many[1:]...), 41,
			[]string{"gone     tool               LISTEN                             was: 0.0.0.0:1000 - kubelet (70)"}},
		"one of several is another": {
			said(probe.OK, "40 sockets", many...), said(probe.OK, "40 sockets",
				append([]string{"LISTEN 0.0.0.0:22 - sshd (2)"}, many[1:]...)...), 41,
			[]string{"0.0.0.0:22 - sshd (2) (new)", "was: 0.0.0.0:1000 - kubelet (70)"},
		},
		"nothing left": {said(probe.OK, "1 route", "10.0.0.0/24 via 10.0.0.1"), said(probe.OK, "0 routes"), 2,
			[]string{"0 routes", "gone "}},
		"an MTU": {said(probe.OK, "1 interface", "eth0 up 1500 aa:bb 1.2G 0/0"),
			said(probe.OK, "1 interface", "eth0 up 1400 aa:bb 1.3G 0/0"), 2, []string{"up 1400"}},
		"other order": {said(probe.OK, "2", "b 1", "a 2"), said(probe.OK, "2", "a 2", "b 1"), 3, nil},
	} {
		var out strings.Builder
		w := NewChanges(false)
		now := time.Date(2026, 11, 21, 3, 0, 0, 0, time.UTC)
		for i, answers := range [][]probe.Result{c.before, c.after} {
			out.Reset()
			text, _ := w.Round(now, answers, "")
			out.WriteString(text)
			n := strings.Count(out.String(), "\n")
			if i == 0 && n != c.first || i == 1 && n != len(c.want) {
				t.Errorf("%s: %d lines\n%s", name, n, out.String())
			}
		}
		for _, text := range c.want {
			if !strings.Contains(out.String(), text) {
				t.Errorf("%s: no %q in\n%s", name, text, out.String())
			}
		}
	}
}

// TestChangesBack requires that a tool's lines after a failure are compared with the lines before it.
func TestChangesBack(t *testing.T) {
	t.Parallel()
	up := []probe.Result{{Check: "bird", Target: "show protocols", Status: probe.OK, Saw: "2 lines"},
		{Check: "bird", Target: "Mesh_1", Saw: "up"}, {Check: "bird", Target: "Mesh_2", Saw: "up"}}
	back := append(slices.Clone(up[:2]), probe.Result{Check: "bird", Target: "Mesh_2", Saw: "start"})
	dead := []probe.Result{{Check: "bird", Target: "show protocols", Status: probe.Fail, Saw: "nobody listens"}}
	var out strings.Builder
	w := NewChanges(false)
	for _, answers := range [][]probe.Result{up, dead, dead, back} {
		text, _ := w.Round(time.Date(2026, 11, 21, 3, 0, 0, 0, time.UTC), answers, "")
		out.WriteString(text)
	}
	lines := strings.Split(strings.TrimSpace(out.String()), "\n")
	if len(lines) != 6 || !strings.Contains(lines[3], "nobody listens (was ok)") ||
		!strings.Contains(lines[4], "Mesh_2                             start") || !strings.Contains(lines[5], "(was fail)") {
		t.Error(out.String())
	}
}

func TestLineMeaning(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		a, b  string
		alike bool
	}{
		{"in 1.2ms, from 10.0.0.1:40112", "in 2ms, from 10.0.0.1:40113", true},
		{"in 1.2ms, from [fd00::1]:40112", "in 2µs, from [fd00::1]:40113", true},
		{"connected to 10.0.0.1:80", "connected to 10.0.0.1:81", false},
		{"up 1500 02:42:ac:11 1.2G 900B 0/0", "up 1500 02:42:ac:11 1.3G 1.0K 0/0", true},
		{"up 1500 02:42:ac:11", "up 1400 02:42:ac:11", false},
		{"errors 0/0", "errors 0/1", false},
		{"errors 0/1", "errors 0/2", true},
		{"running 3h 4 img 3fa2b1c00d11", "running 2s 4 img 3fa2b1c00d11", true},
		{"running 3h 4 img 3fa2b1c00d11", "running 3h 5 img 3fa2b1c00d11", false},
		{"running 3h 4 img 3fa2b1c00d11", "running 3h 4 img 7bc2b1c00d11", false},
		{"exited 1 3h ago", "exited 137 3h ago", false},
		{"via 10.0.0.1 metric 100", "via 10.0.0.1 metric 200", false},
		{"BGP master up 03:00:01 Established", "BGP master up 2026-11-21 Established", true},
		{"via 10.0.0.2 [Mesh_1 03:00:01] * (100/0)", "via 10.0.0.2 [Mesh_1 04:00:01] * (100/0)", true},
		{"Hold timer: 146/240", "Hold timer: 12/240", true},
		{"29 A 10.96.0.1", "30 A 10.96.0.1", true},
		{"29 A 10.96.0.1", "30 A 10.96.0.2", false},
		{"packet too big: 1450 bytes would fit", "packet too big: 1400 bytes would fit", false},
		{"HTTP/1.1 200 OK", "HTTP/1.1 503 Service Unavailable", false},
		{"5 sent, 1ms/2ms/3ms min/avg/max", "5 sent, 2ms/3ms/400µs min/avg/max", true},
		{"5 packets sent, 5 came back, 0% lost", "5 packets sent, 4 came back, 20% lost", false},
	} {
		if got := lineMeaning(c.a) == lineMeaning(c.b); got != c.alike {
			t.Errorf("%q and %q: alike %v (%q, %q)", c.a, c.b, got, lineMeaning(c.a), lineMeaning(c.b))
		}
	}
}

func TestSentenceMeaning(t *testing.T) {
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
		if got := sentenceMeaning(c.a) == sentenceMeaning(c.b); got != c.alike {
			t.Errorf("%q and %q: alike %v (%q, %q)", c.a, c.b, got, sentenceMeaning(c.a), sentenceMeaning(c.b))
		}
	}
}
