package report

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/probe/must"
)

// told plays a session in a line an event, as short as can be:
//
//	asked pod a b        a round about node-a; "neighbour" for the way asks around too
//	start pod            a plan begins; "start node-b" the neighbour's
//	pod a ok t           a result of check a about target t; "node-b a fail" the neighbour's
//	end pod, stop pod    it ends, was stopped
func told(lines ...string) []probe.Event {
	var out []probe.Event
	for _, line := range lines {
		w := strings.Fields(line)
		at := func(i int) string {
			if i < len(w) {
				return w[i]
			}
			return ""
		}
		ev := probe.Event{Node: "node-a", Method: at(1)}
		switch w[0] {
		case "asked":
			ev.Type, ev.Start = probe.EventRecheck, &probe.Start{Checks: w[2:]}
		case "start":
			ev.Type, ev.Start = probe.EventStart, &probe.Start{V: probe.Version}
		case "end", "stop":
			ev.Type, ev.End = probe.EventEnd, &probe.End{Stopped: w[0] == "stop"}
		case "tool":
			ev.Type, ev.Start = probe.EventStart, &probe.Start{V: probe.Version, Tool: at(2)}
		case "outcome":
			r := probe.Found(probe.Fail, "nobody answers")
			ev.Type, ev.End = probe.EventEnd, &probe.End{Outcome: &r}
		default:
			ev.Type, ev.Method = probe.EventResult, w[0]
			ev.Result = &probe.Result{Check: at(1), Status: probe.Status(at(2)), Target: at(3), Saw: "seen"}
		}
		if strings.HasPrefix(ev.Method, "node-") {
			ev.Node, ev.Method, ev.For = ev.Method, probe.MethodBaseline, "node-a"
		}
		out = append(out, ev)
	}
	return out
}

// known is what stands in the end: each result, and the verdict.
func known(l *Latest) string {
	run := l.Run()
	tally := NewTally()
	var out []string
	for _, ev := range run.Events {
		if ev.Node == run.Node {
			tally.Add(ev)
		}
		if r := ev.Result; r != nil {
			text := strings.TrimSpace(fmt.Sprintf("%s %s %s", r.Check, r.Status, r.Target))
			if ev.Node != run.Node {
				text = ev.Node + " " + text
			}
			out = append(out, text)
		}
	}
	return strings.Join(append(out, tally.Verdict(false).Word), ", ")
}

// TestLatest is the rule of what replaces what.
func TestLatest(t *testing.T) {
	t.Parallel()
	whole := []string{"asked pod a b", "start pod", "pod a ok t1", "pod a fail t2", "pod b ok", "end pod"}
	for name, c := range map[string]struct {
		lines []string
		want  string
	}{
		"one round": {whole, "a ok t1, a fail t2, b ok, fault"},
		"asked again, and a target is gone": {
			append(whole, "asked pod a", "start pod", "pod a ok t1", "end pod"), "b ok, a ok t1, healthy",
		},
		"lost: the old answer does not stand": {
			append(whole, "asked pod a", "start pod", "pod probe-answered unknown"), "probe-answered unknown, b ok, incomplete",
		},
		"lost halfway: what came stands, and is not the whole": {
			[]string{"asked pod a b", "start pod", "pod a ok",
				"pod probe-answered unknown"}, "probe-answered unknown, a ok, incomplete",
		},
		"lost, then other things are asked": {
			append(whole, "asked pod a", "start pod", "pod probe-answered unknown", "asked pod b", "start pod", "pod b ok",
				"end pod"),
			"probe-answered unknown, b ok, incomplete",
		},
		"lost, then the same is answered whole": {
			append(whole, "asked pod a b", "start pod", "pod probe-answered unknown", "asked pod a", "start pod", "pod a ok",
				"end pod",
				"asked pod b", "start pod", "pod b ok", "end pod"),
			"a ok, b ok, healthy",
		},
		"lost twice, the second time less": {
			append(whole, "asked pod a b", "start pod", "pod probe-answered unknown", "asked pod a",
				"pod probe-answered unknown",
				"asked pod a", "start pod", "pod a ok", "end pod"),
			"probe-answered unknown, a ok, incomplete",
		},
		"lost, then by another way": {
			append(whole, "asked pod a b", "start pod", "pod a ok", "pod probe-answered unknown",
				"asked pod a b", "exec probe-placed ok", "start exec", "exec a ok", "exec b ok", "end exec"),
			"probe-placed ok, a ok, b ok, healthy",
		},
		"stopped: nobody knows what was left": {
			append(whole, "asked pod a", "start pod", "pod a ok t1",
				"stop pod"), "probe-answered unknown, b ok, a ok t1, incomplete",
		},
		"stopped, then answered": {
			append(whole, "asked pod a", "start pod", "pod a unknown t1", "stop pod", "asked pod a", "start pod", "pod a ok t1",
				"end pod"), "b ok, a ok t1, healthy",
		},
		"asked, and not a word came": {append(whole, "asked pod a"), "b ok, probe-answered unknown, incomplete"},
		"no way, then one": {
			[]string{"asked pod", "pod probe-placed unknown", "exec probe-placed unknown", "asked pod a",
				"pod probe-placed info", "ssh probe-placed ok", "start ssh", "ssh a ok", "end ssh"},
			"probe-placed info, probe-placed ok, a ok, healthy",
		},
		"placed once, asked twice": {
			[]string{"asked pod", "pod probe-placed ok", "asked pod a", "start pod", "pod a ok", "end pod", "asked pod a",
				"start pod", "pod a warn", "end pod"},
			"probe-placed ok, a warn, warnings",
		},
		"no way, and what is owed": {
			append(whole, "asked pod a b", "pod probe-placed unknown"), "probe-placed unknown, incomplete",
		},
		"neighbours: a whole run that does not ask them any more": {
			append(whole, "asked neighbour a b", "start pod", "pod a fail", "pod b ok", "end pod", "neighbour outside info",
				"start node-b", "node-b a ok", "node-b outside fail", "end node-b",
				"asked neighbour a b", "start pod", "pod a ok", "pod b ok", "end pod"),
			"a ok, b ok, healthy",
		},
		"neighbours: one check again takes what it was compared with": {
			append(whole, "asked neighbour a b", "start pod", "pod a fail", "pod b ok", "end pod", "neighbour outside info",
				"start node-b", "node-b a ok", "node-b outside ok", "end node-b",
				"asked pod a", "start pod", "pod a ok", "end pod"),
			"outside info, b ok, a ok, node-b outside ok, healthy",
		},
		"a tool is no check": {
			append(whole, "tool pod ping", "outcome pod", "asked pod a", "start pod", "pod a ok",
				"end pod"), "b ok, a ok, healthy",
		},
		"another node's own": {append(whole, "start node-b"), "a ok t1, a fail t2, b ok, fault"},
	} {
		l := &Latest{Node: "node-a"}
		for _, ev := range told(c.lines...) {
			l.Add(ev)
		}
		if got := known(l); !alike(got, c.want) {
			t.Errorf("%s:\n%s\nwant\n%s", name, got, c.want)
		}
	}
}

// alike compares what is known without its order, but for the verdict.
func alike(a, b string) bool {
	x, y := strings.Split(a, ", "), strings.Split(b, ", ")
	if x[len(x)-1] != y[len(y)-1] {
		return false
	}
	slices.Sort(x)
	slices.Sort(y)
	return slices.Equal(x, y)
}

// TestLatestIsARun requires that the latest answers are readable as a saved run.
func TestLatestIsARun(t *testing.T) {
	t.Parallel()
	l := &Latest{Node: "node-a"}
	for _, ev := range told("asked pod a b", "start pod", "pod a fail", "pod b ok", "end pod", "asked neighbour a",
		"start pod", "pod a ok", "end pod") {
		l.Add(ev)
	}
	if got := strings.Join(l.Requested(), " "); got != "b a" {
		t.Errorf("asked: %s", got)
	}
	var b strings.Builder
	sink, err := New("ndjson", &b, false)
	if err != nil {
		t.Fatal(err)
	}
	run := l.Run()
	for _, ev := range append(run.Events, probe.Event{Type: probe.EventVerdict, Node: "node-a",
		Verdict: &probe.Verdict{Word: "healthy"}}) {
		must.Do(t, sink.Event(ev))
	}
	again, err := loadOne(strings.NewReader(b.String()))
	if err != nil || again.Lacks != "" || again.Node != "node-a" || len(again.Events) != len(run.Events) {
		t.Errorf("%v %+v\n%s", err, again, b.String())
	}
}

// TestNotBelieved requires that a node with an unrequested answer is incomplete until it is queried again, even if each
// check has an answer.
func TestNotBelieved(t *testing.T) {
	t.Parallel()
	word := func(lines ...string) string {
		l := &Latest{Node: "node-a"}
		for _, ev := range told(lines...) {
			if ev.Result != nil && ev.Result.Check == probe.CheckAnswered {
				r := ev.Result.With(probe.FactReason, ev.Result.Target)
				ev.Result = &r
			}
			l.Add(ev)
		}
		tally := NewTally()
		for _, ev := range l.Run().Events {
			tally.Add(ev)
		}
		return tally.Verdict(false).Word
	}
	for _, reason := range []string{probe.ReasonUnrequested, probe.ReasonTooMuch, probe.ReasonNewer} {
		bad := []string{"asked pod a", "start pod", "pod a ok", "pod probe-answered unknown " + reason, "end pod"}
		if got := word(bad...); got != WordIncomplete {
			t.Error(reason, got)
		}
		if got := word(append(bad, "asked pod a", "start pod", "pod a ok", "end pod")...); got != WordHealthy {
			t.Error("asked again:", reason, got)
		}
	}
}
