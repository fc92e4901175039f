package examine

import (
	"testing"

	"github.com/calico-probe/calico-probe/internal/diagnose"
	"github.com/calico-probe/calico-probe/internal/subject/bgp"
	"github.com/calico-probe/calico-probe/probe"
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
