package diagnose

import (
	"github.com/calico-probe/calico-probe/internal/subject/bgp"
	"github.com/calico-probe/calico-probe/internal/subject/link"
	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/probe/facts"
)

// registeredElsewhere are the registrations of this node outside the network of the nodes, alone or like the others.
func registeredElsewhere(f Findings) []Finding {
	return append(f.With(facts.CheckIPRegistered, probe.FactReason, facts.ReasonOutside), allElsewhere(f)...)
}

// allElsewhere are registrations that are no InternalIP, as those of the other nodes, where that network does not work:
// no session is up over it, and another node answers at its InternalIP.
func allElsewhere(f Findings) []Finding {
	return keep(f.Of(facts.CheckIPRegistered), func(r Finding) bool {
		registered, internal := r.Facts.Str(facts.Registered), r.Facts.Str(facts.Internal)
		return r.Status == probe.Info && r.Facts.Str(probe.FactReason) == "" && registered != "" && internal != "" &&
			registered != internal && len(alive(f, familyOf(r))) > 0
	})
}

// alive are the answers to a ping of nodes at another address than that of their session, where every session of the
// family is down.
func alive(f Findings, family int) []Finding {
	var out []Finding
	for _, s := range f.Of(bgp.BGPSession.ID) {
		peer := s.Facts.Str(bgp.FactPeer)
		if familyOf(s) != family || peer == "" {
			continue
		}
		if !bad(s.Status) {
			return nil
		}
		name := nodeOf(s)
		out = append(out, keep(f.Of(link.NodePing.ID), func(r Finding) bool {
			return name != "" && r.Status == probe.OK && familyOf(r) == family && nodeOf(r) == name &&
				r.Target != name+" "+peer
		})...)
	}
	return out
}

// togetherElsewhere adds to a case that all nodes are registered so, where they are. That network may also be
// meant, and broken: this is no proof.
func togetherElsewhere(f Findings, reg Finding, c *Case) {
	if reg.Status != probe.Info {
		return
	}
	c.For = append(c.For, Shows(alive(f, familyOf(reg))[:1])...)
	c.Says += "; all nodes are registered outside the network of their InternalIPs, and no BGP session comes up there"
}

// wrongAddresses are the registrations of a family, of this node and of others, that lead sessions elsewhere.
func wrongAddresses(f Findings, family int) []Finding {
	return keep(append(allElsewhere(f), f.Bad(facts.CheckIPRegistered)...), func(r Finding) bool {
		reason := r.Facts.Str(probe.FactReason)
		return familyOf(r) == family &&
			(r.Status == probe.Info || reason == facts.ReasonOutside || reason == facts.ReasonPeer)
	})
}
