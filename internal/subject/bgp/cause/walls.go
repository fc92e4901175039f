package cause

import (
	"cmp"
	"fmt"
	"maps"
	"regexp"
	"slices"

	"github.com/calico-probe/calico-probe/internal/diagnose"
	"github.com/calico-probe/calico-probe/internal/subject/link"
	"github.com/calico-probe/calico-probe/internal/subject/nodestate"
	"github.com/calico-probe/calico-probe/internal/subject/nodestate/diff"
	"github.com/calico-probe/calico-probe/probe"
)

// shutter is a rule of a node's firewall that blocks a port, with the result that lists it.
type shutter struct {
	diagnose.Finding
	node, rule string
}

// shutterOf finds a rule on a node that drops or rejects a TCP port, among node-state's rules of foreign firewalls
// (neither Calico's nor kube-proxy's).
func shutterOf(f diagnose.Findings, port int) (shutter, bool) {
	walls := diff.StateOf(f)[nodestate.AreaFirewall]
	if walls == nil {
		return shutter{}, false
	}
	refuses := regexp.MustCompile(fmt.Sprintf(`\btcp [^|]*\bdport %d\b.*\b(?:drop|reject)\b`, port))
	for _, rule := range slices.Sorted(maps.Keys(walls.Values)) {
		if refuses.MatchString(rule) {
			return shutter{walls.Of[rule], f.Node, rule}, true
		}
	}
	return shutter{}, false
}

// rejectedFrom returns the results of other nodes that a firewall rejected at a session's port on this node, the peer
// first. It returns nothing if the peer has no such result.
func rejectedFrom(f diagnose.Findings, s session) []diagnose.Finding {
	peer := diagnose.NodeOf(s.Finding)
	out := diagnose.Keep(f.Elsewhere(link.NeighbourReach.ID), func(o diagnose.Finding) bool {
		return diagnose.NodeOf(o) == f.Node && diagnose.FamilyOf(o) == diagnose.FamilyOf(s.Finding) &&
			diagnose.ReasonOf(o) == "rejected" && diagnose.Holds(o.Facts, probe.FactPort, s.port.Facts[probe.FactPort])
	})
	slices.SortStableFunc(out, func(a, b diagnose.Finding) int { return diagnose.Last(a.Node != peer, b.Node != peer) })
	if len(out) == 0 || out[0].Node != peer {
		return nil
	}
	return out
}

// rejectedHere fills the case of a session whose peer reports that this node rejects it. The peer could cause the
// missing answer. Only a rule on this node, or a second rejected node, makes the case certain.
func rejectedHere(f diagnose.Findings, s session, c *diagnose.Case) {
	none := []diagnose.Finding{s.port}
	c.For = slices.Concat(diagnose.Suggests(s.outside), diagnose.Suggests(none))
	c.Says = fmt.Sprintf("a firewall on or before {node} rejects BGP from %s", s.outside[0].Node)
	if s.answers() {
		c.Says += ", while the machines ping each other"
	}
	c.Args["other"] = diagnose.NodeArg(f.Node)
	port := portOf(s)
	if by, ok := shutterOf(f, port); ok {
		c.For = slices.Concat(diagnose.Suggests(s.outside, []diagnose.Finding{by.Finding}), diagnose.Shows(none))
		by.name(c, port)
	}
	c.For = append(c.For, diagnose.Shows([]diagnose.Finding{s.Finding}, s.there)...)
}

// portOf returns the port of a session's peer.
func portOf(s session) int {
	known, _ := s.port.Facts.Num(probe.FactPort)
	return cmp.Or(int(known), 179)
}

// name adds the blocking rule and its fix to a case.
func (by shutter) name(c *diagnose.Case, port int) {
	c.Says += fmt.Sprintf("; a rule on %s blocks it: %s", by.node, by.rule)
	c.Args["other"], c.Args["port"] = diagnose.NodeArg(by.node), diagnose.NumberArg(float64(port))
	c.FixName = "open-input"
}

// shutBy adds the blocking firewall rule to the case of a session, if one of the two ends lists it: first the peer,
// then this node.
func shutBy(f diagnose.Findings, s session, c *diagnose.Case) {
	port := portOf(s)
	for _, at := range []string{diagnose.NodeOf(s.Finding), f.Node} {
		if at == "" {
			continue
		}
		if by, ok := shutterOf(f.At(at), port); ok {
			c.For = append(c.For, diagnose.Hints([]diagnose.Finding{by.Finding})...)
			by.name(c, port)
			return
		}
	}
}
