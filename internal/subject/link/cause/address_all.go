package cause

import (
	"github.com/calico-probe/calico-probe/internal/diagnose"
	"github.com/calico-probe/calico-probe/internal/subject/bgp"
	"github.com/calico-probe/calico-probe/internal/subject/evidence"
	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/probe/facts"
)

// registeredElsewhere returns the registrations of this node outside the nodes' network, whether alone or like the
// others.
func registeredElsewhere(f diagnose.Findings) []diagnose.Finding {
	return append(f.With(facts.CheckIPRegistered, probe.FactReason, facts.ReasonOutside), evidence.AllElsewhere(f)...)
}

// togetherElsewhere adds to a case that all nodes are registered this way, if so. The network may be intended but
// broken, so this is not proof.
func togetherElsewhere(f diagnose.Findings, reg diagnose.Finding, c *diagnose.Case) {
	alive := evidence.Alive(f, diagnose.FamilyOf(reg))
	if reg.Status != probe.Info || len(alive) == 0 {
		return
	}
	c.For = append(c.For, diagnose.Shows(alive[:1])...)
	c.Says += "; all nodes are registered outside the network of their InternalIPs, and "
	if len(f.Bad(bgp.BGPSession.ID)) > 0 {
		c.Says += "no BGP session comes up there"
		return
	}
	mute, _ := evidence.Mute(f, diagnose.FamilyOf(reg))
	c.For = append(c.For, diagnose.Hints(mute)...)
	c.Says += "no node answers there: " + mute[0].Target
}
