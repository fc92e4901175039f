package evidence

import (
	"testing"

	"github.com/calico-probe/calico-probe/internal/diagnose"
	"github.com/calico-probe/calico-probe/internal/subject/link"
	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/probe/facts"
)

// TestDetectedTwice expects the detection as the reason for a duplicate address only if the other node does not own it.
func TestDetectedTwice(t *testing.T) {
	t.Parallel()
	for internal, twice := range map[string]bool{"10.0.0.2": true, "10.0.2.15": false} {
		auto := probe.Found(probe.Info, "x").On("IPv4").With(link.FactPicked, "10.0.2.15").
			With(link.FactMethod, "first-found").
			With(link.FactAlternatives, map[string]any{"kubernetes-internal-ip": "10.0.0.1 on eth0 (veth)"})
		auto.Check = link.IPAutodetect.ID
		there := probe.Found(probe.Info, "x").On("IPv4").With(facts.Registered, "10.0.2.15").With(facts.Internal, internal)
		there.Check = facts.CheckIPRegistered
		c := diagnose.Case{Args: map[string]diagnose.Arg{}}
		f := diagnose.Findings{Node: "a", All: []diagnose.Finding{{Node: "a", Result: auto}, {Node: "b", Result: there}}}
		DetectedTwice(f, &c, "b", "10.0.2.15")
		if (c.Fix != nil) != twice {
			t.Errorf("%s: %+v", internal, c)
		}
	}
}
