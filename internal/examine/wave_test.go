package examine

import (
	"testing"

	"github.com/calico-probe/calico-probe/internal/diagnose"
	"github.com/calico-probe/calico-probe/internal/report"
	"github.com/calico-probe/calico-probe/internal/subject/bgp"
	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/probe/must"
)

// TestFewPeersLost distinguishes a node that is cut off from one that sees the fault of another.
func TestFewPeersLost(t *testing.T) {
	t.Parallel()
	to := func(node string, s probe.Status) diagnose.Finding {
		return diagnose.Finding{Node: "n", Result: probe.Found(s, "").With(probe.FactNode, node)}
	}
	session := func(peer string, s probe.Status) diagnose.Finding {
		return diagnose.Finding{Node: "n", Result: probe.Found(s, "").With(bgp.FactPeer, peer)}
	}
	theirs := to("b", probe.Fail)
	theirs.Node = "c"
	for name, c := range map[string]struct {
		all  []diagnose.Finding
		want bool
	}{
		"nothing failed":    {[]diagnose.Finding{to("a", probe.OK)}, false},
		"no peer tested":    {[]diagnose.Finding{{Node: "n", Result: probe.Found(probe.Fail, "")}}, false},
		"the only peer":     {[]diagnose.Finding{to("a", probe.Fail)}, false},
		"one of two":        {[]diagnose.Finding{to("a", probe.Fail), to("b", probe.OK)}, true},
		"two of three":      {[]diagnose.Finding{to("a", probe.Fail), to("b", probe.Fail), to("c", probe.OK)}, false},
		"one, two families": {[]diagnose.Finding{to("a", probe.Fail), to("a", probe.Fail), to("b", probe.OK)}, true},
		"a session":         {[]diagnose.Finding{session("1.1.1.1", probe.Fail), session("1.1.1.2", probe.OK)}, true},
		"of a baseline":     {[]diagnose.Finding{theirs, to("a", probe.OK)}, false},
		"itself":            {[]diagnose.Finding{to("n", probe.Fail), to("a", probe.OK)}, false},
	} {
		if got := fewPeersLost(diagnose.Findings{Node: "n", All: c.all}); got != c.want {
			t.Errorf("%s: %t", name, got)
		}
	}
}

// TestForIsCleared requires that a node cannot move its answer into the run of another node.
func TestForIsCleared(t *testing.T) {
	t.Parallel()
	var got []probe.Event
	c := NewCollector("n", report.SinkFunc(func(ev probe.Event) error { got = append(got, ev); return nil }))
	r := probe.Found(probe.Fail, "down")
	forged := probe.Event{Type: probe.EventResult, For: "victim", Result: &r}
	must.Do(t, c.Add("pod", forged))
	must.Do(t, c.AddOf("b", probe.MethodBaseline, forged))
	for _, ev := range got {
		if ev.For != "" {
			t.Errorf("%s answers for %s", ev.Node, ev.For)
		}
	}
	if len(got) != 2 {
		t.Errorf("%d events", len(got))
	}
}
