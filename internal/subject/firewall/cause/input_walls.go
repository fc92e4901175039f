package cause

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"github.com/calico-probe/calico-probe/internal/diagnose"
	"github.com/calico-probe/calico-probe/internal/subject/bgp"
	"github.com/calico-probe/calico-probe/internal/subject/evidence"
	"github.com/calico-probe/calico-probe/internal/subject/nodestate"
	"github.com/calico-probe/calico-probe/internal/subject/nodestate/diff"
	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/probe/facts"
)

// nodeTurnsAway is projectcalico/calico#3309: a firewall of the node that accepts only listed traffic.
func nodeTurnsAway(f diagnose.Findings) []diagnose.Case {
	byICMP := func(r diagnose.Finding) bool { // about the node's own ports, as reported only by the node
		by := r.Facts.Str(probe.FactICMPFrom)
		return diagnose.ReasonOf(r) == "rejected" && !strings.Contains(r.Target, " pod ") &&
			(by == "" || slices.Contains(strings.Fields(r.Target), by))
	}
	rejected, kubelets := diagnose.Keep(evidence.FromOutside(f, evidence.AnyPort).Refused, byICMP),
		diagnose.Keep(evidence.FromOutside(f, evidence.KubeletPort).Refused, byICMP)
	if len(rejected) == 0 || len(kubelets) == 0 && len(f.Failed(bgp.BGPPort.ID)) > 0 { // BGP alone, at both ends
		return nil
	}
	itself := diagnose.Keep(rejected, func(r diagnose.Finding) bool { return r.Facts.Str(probe.FactICMPFrom) != "" })
	wall, listed := inputWall(f)
	if len(itself) == 0 && !listed {
		return nil
	}
	c := diagnose.Case{For: append(diagnose.Suggests(rejected[:1]), diagnose.Shows(rejected[1:])...),
		Covers: append(evidence.PathFollows(f, 0, ""), diagnose.Covers(probe.CheckAnswered, facts.CheckCalicoPod,
			bgp.BGPExpected.ID)...),
		Says: fmt.Sprintf("a firewall on {node} itself rejects connections from other nodes to %s", portsOf(rejected))}
	if listed {
		c.For = append(c.For, diagnose.Suggests([]diagnose.Finding{wall.Finding})...)
		c.Says += fmt.Sprintf(": chain %s of its rules (%s)", wall.rule, wall.is)
	}
	return []diagnose.Case{c}
}

// wall is a chain of a node's own firewall, with its effect on packets.
type wall struct {
	diagnose.Finding
	rule, is string
}

// turnsAway matches node-state's line of an input chain that rejects some packets.
var turnsAway = regexp.MustCompile(`^hook input, .*\breject\b`)

// inputWall finds a rejecting input chain on this node that is neither Calico's nor kube-proxy's.
func inputWall(f diagnose.Findings) (wall, bool) {
	walls := diff.StateOf(f)[nodestate.AreaFirewall]
	if walls == nil {
		return wall{}, false
	}
	for _, name := range slices.Sorted(maps.Keys(walls.Values)) {
		if is := walls.Values[name]; turnsAway.MatchString(is) {
			return wall{walls.Of[name], name, is}, true
		}
	}
	return wall{}, false
}

// portsOf lists the TCP ports of some results, without duplicates.
func portsOf(all []diagnose.Finding) string {
	var out []string
	for _, r := range all {
		port, _ := r.Facts.Num(probe.FactPort)
		if text := fmt.Sprintf("TCP %.0f", port); !slices.Contains(out, text) {
			out = append(out, text)
		}
	}
	slices.Sort(out)
	return strings.Join(out, ", ")
}
