package mesh

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

// TestBoard has nodes say how their paths are over some rounds.
func TestBoard(t *testing.T) {
	t.Parallel()
	began := time.Date(2026, 11, 24, 3, 0, 0, 0, time.UTC)
	b := NewBoard(10 * time.Second)
	hear := func(round int, node, lost string, trials ...Trial) string {
		var out []string
		for _, c := range b.Add(RoundReport{Round: round, At: began.Add(time.Duration(round) * 5 * time.Second), Node: node,
			Lost: lost, Trials: map[string][]Trial{PlaneNode: trials}}) {
			out = append(out, fmt.Sprintf("%s %s-%s %v %v", c.Plane, c.Trial.From, c.Trial.To, c.Trial.Failed, c.For))
		}
		return strings.Join(out, ", ")
	}
	path := func(from, to string, received int, rtt float64) Trial {
		return Trial{From: from, To: to, Sent: 3, Received: received, RTT: rtt, Failed: received == 0,
			Saw: fmt.Sprint(received)}
	}
	for _, c := range []struct {
		got, want string
	}{
		{hear(1, "a", "", path("a", "b", 3, 1), path("a", "c", 3, 8)), ""},
		{hear(1, "b", "", path("b", "a", 0, 0), path("b", "c", 3, 1)), "node b-a true 0s"}, // from the first round on
		{hear(2, "a", "", path("a", "b", 1, 2), path("a", "c", 3, 4)), ""},                 // it loses, and works
		{hear(2, "b", "", path("b", "a", 0, 0), path("b", "c", 3, 1)), ""},
		{hear(4, "b", "", path("b", "a", 3, 1), path("b", "c", 3, 1)), "node b-a false 15s"},
		{hear(3, "b", "", path("b", "a", 0, 0), path("b", "c", 0, 0)), ""}, // it comes late
		{hear(4, "a", "", path("a", "b", 3, 1), path("a", "c", 0, 0)), "node a-c true 0s"},
		{hear(4, "c", "no pod starts there"), ""},
	} {
		if c.got != c.want {
			t.Errorf("%q, want %q", c.got, c.want)
		}
	}
	var got []string
	for _, r := range b.Rows("") {
		got = append(got, fmt.Sprintf("%s-%s %d %.2f %g/%g/%g %s", r.From, r.To, r.State, r.Lost, r.Now, r.Median, r.Worst,
			r.Spark(4)))
	}
	want := []string{
		"a-c 0 0.33 0/8/8 █▅·×",
		"b-a 3 0.75 1/1/1 ×××█",
		"b-c 3 0.25 1/1/1 ██×█",
		"a-b 3 0.22 1/1/2 ▅!·▅",
	}
	if strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Errorf("%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	if s := b.Sum(); s.Paths != 4 || s.Fail != 1 || s.Lossy != 0 || s.Round != 4 || len(s.Lost) != 1 {
		t.Errorf("%+v", s)
	}
	if rows := b.Rows("c"); len(rows) != 2 {
		t.Errorf("%d rows with c", len(rows))
	}
	// b says nothing for some rounds, and a that it cannot be asked.
	b.Begin(7)
	if got := hear(7, "a", "its probe has gone"); got != "" {
		t.Error(got)
	}
	if s := b.Sum(); s.Silent != 4 || len(s.Lost) != 2 {
		t.Errorf("%+v", s)
	}
	// What is older than a Board remembers counts no more.
	for round := 8; round < 8+kept; round++ {
		hear(round, "a", "", path("a", "b", 3, 1), path("a", "c", 3, 1))
	}
	if s, rows := b.Sum(), b.Rows("b"); len(s.Lost) != 1 || s.Silent != 2 || rows[len(rows)-1].Lost != 0 ||
		len(rows[0].Last) != kept || rows[0].State != Silent || strings.Trim(rows[0].Spark(kept), "·") != "" {
		t.Errorf("%+v %+v", s, rows)
	}
}

// TestAwaited requires that a board with a missing node does not report that all paths work.
func TestAwaited(t *testing.T) {
	t.Parallel()
	b := NewBoard(time.Second, "a", "b", "c")
	works := map[string][]Trial{PlaneNode: {{From: "a", To: "b", Sent: 3, Received: 3}}}
	for _, c := range []struct {
		heard RoundReport
		want  string
	}{
		{RoundReport{Round: 1, Node: "a", Trials: works}, "1 paths; no report yet from 2 nodes"},
		{RoundReport{Round: 1, Node: "b", Lost: "no pod starts there"}, "1 paths; no report yet from 1 nodes"},
		{RoundReport{Round: 2, Node: "c"}, "1 paths"}, // the paths from b are unknown
		{RoundReport{Round: 3, Node: "b"}, "1 paths, all work"},
	} {
		b.Add(c.heard)
		if got := b.Sum().String(); got != c.want {
			t.Errorf("%q, want %q", got, c.want)
		}
	}
}
