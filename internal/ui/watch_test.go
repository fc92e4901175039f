package ui

import (
	"bytes"
	"fmt"
	"io"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/calico-probe/calico-probe/probe"
)

// onScreen returns what a terminal shows after some bytes. It supports newlines, moving the cursor up, and erasing from
// there.
func onScreen(t *testing.T, written string) []string {
	t.Helper()
	lines, at := []string{""}, 0
	for i := 0; i < len(written); i++ {
		switch c := written[i]; {
		case c == '\n':
			at++
			if at == len(lines) {
				lines = append(lines, "")
			}
		case c == '\r':
		case strings.HasPrefix(written[i:], "\x1b[J"):
			lines, i = append(lines[:at:at], ""), i+2
		case strings.HasPrefix(written[i:], "\x1b["):
			number, _, _ := strings.Cut(written[i+2:], "A")
			up, err := strconv.Atoi(number)
			if err != nil || up > at {
				t.Fatalf("%q goes up from line %d", written[i:], at)
			}
			at, i = at-up, i+2+len(number)
		default:
			lines[at] += string([]byte{c})
		}
	}
	return lines
}

// TestWatch requires bad answers and progress while answers arrive, and afterwards only the permanent lines.
func TestWatch(t *testing.T) {
	var out bytes.Buffer
	w := newWatch(&out, "checks", []string{"a", "b", "c", "d", "e"}, func() (int, int) { return 40, 10 })
	answer := func(check string, status probe.Status) {
		w.Event(probe.Event{Type: probe.EventResult, Node: "n",
			Result: &probe.Result{Check: check, Status: status, Saw: "seen \x1b[2J" + strings.Repeat("x", 50)}}, "n")
	}
	shown := func() string { return strings.Join(onScreen(t, out.String()), "\n") }
	w.change(func() { w.waits = "pod: waiting for the image" })
	if got := shown(); !strings.Contains(got, "0 of 5 checks, 0s; pod: waiting for th…") {
		t.Errorf("at first: %q", got)
	}
	answer("a", probe.OK)
	answer("b", probe.Fail)
	w.above("a word to keep")
	got := shown()
	for _, want := range []string{"a word to keep\nfail     b: seen ?[2J", "\n2 of 5 checks, 0s, 1 bad; waiting for …"} {
		if !strings.Contains(got, want) {
			t.Errorf("no %q in %q", want, got)
		}
	}
	for i := range 30 { // more than the terminal has lines
		answer(fmt.Sprint("c", i), probe.Warn)
	}
	if lines := onScreen(t, out.String()); len(lines) > 10 {
		t.Errorf("%d lines of a terminal of 10: %q", len(lines), lines)
	}
	w.Close()
	w.Close()
	answer("d", probe.Fail) // comes late
	w.above("last")
	if got := shown(); got != "a word to keep\nlast\n" {
		t.Errorf("afterwards: %q", got)
	}
}

// TestNoWatch requires a nil Watch without a terminal.
func TestNoWatch(t *testing.T) {
	w := Watching(io.Discard, "nodes", nil)
	w.Event(probe.Event{}, "n")
	w.Expect([]string{"n"})
	w.Done("n", "")
	w.Close()
	if w != nil {
		t.Error("a Watch on no terminal")
	}
}

// TestWatchWaits requires the wait for an access method to come first, and to end with the probe's first answer.
func TestWatchWaits(t *testing.T) {
	var out bytes.Buffer
	w := newWatch(&out, "checks", []string{"a", "bgp-session"}, func() (int, int) { return 100, 10 })
	waits := func(text string) { w.change(func() { w.waits = text }) }
	answer := func(check, way string) {
		w.Event(probe.Event{Type: probe.EventResult, Node: "n", Method: way,
			Result: &probe.Result{Check: check, Status: probe.OK}}, "n")
	}
	last := func() string {
		lines := onScreen(t, out.String())
		return lines[len(lines)-2]
	}
	for _, c := range []struct {
		do   func()
		want string
	}{
		{func() { waits("pod: putting a probe on n") }, "0 of 2 checks, 0s; pod: putting a probe on n; waiting for a, bgp-session"},
		{func() { answer("a", "api") }, "1 of 2 checks, 0s; pod: putting a probe on n; waiting for bgp-session"},
		{func() { answer("probe-placed", "pod") }, "1 of 2 checks, 0s; waiting for bgp-session"},
		{func() { waits("comparison: putting a probe on m"); answer("b", "pod") },
			"1 of 2 checks, 0s; comparison: putting a probe on m; waiting for bgp-session"},
		{func() { waits("ssh: logging in"); answer("b", "ssh") }, "1 of 2 checks, 0s; waiting for bgp-session"},
	} {
		if c.do(); last() != c.want {
			t.Errorf("%q, want %q", last(), c.want)
		}
	}
}

// TestWatchNodes requires the number of nodes without an answer, and some of their names.
func TestWatchNodes(t *testing.T) {
	var out bytes.Buffer
	w := newWatch(&out, "nodes", nil, func() (int, int) { return 100, 10 })
	w.Expect([]string{"a", "b", "c", "d", "e"})
	w.Done("b", "fault    b: the kubelet is silent")
	want := "fault    b: the kubelet is silent\n1 of 5 nodes, 0s, 1 bad; waiting for a, c, d and 1 more\n"
	if got := strings.Join(onScreen(t, out.String()), "\n"); got != want {
		t.Errorf("%q", got)
	}
}

// TestWatchPause uses a node that answers faster than a terminal draws.
func TestWatchPause(t *testing.T) {
	t.Parallel()
	var out strings.Builder
	w := newWatch(&out, "checks", nil, func() (int, int) { return 80, 24 })
	w.pause = time.Hour
	for range 10000 {
		w.Done("", "fail     node-disk /var: full")
	}
	if n := strings.Count(out.String(), "\n"); n > freeDraws*24 {
		t.Errorf("%d lines were written", n)
	}
	if got := w.progress(); !strings.Contains(got, "10000 bad") || len(w.bad) != maxBad {
		t.Errorf("%s, %d lines kept", got, len(w.bad))
	}
}
