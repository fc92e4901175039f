package cause

import (
	"fmt"
	"slices"
	"strings"

	"github.com/calico-probe/calico-probe/internal/diagnose"
	"github.com/calico-probe/calico-probe/internal/subject/evidence"
	"github.com/calico-probe/calico-probe/internal/subject/link"
	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/probe/facts"
)

// familyCutOff matches a node with one dead IP family, as its neighbours observe it.
func familyCutOff(f diagnose.Findings) []diagnose.Case {
	if len(f.Failed(facts.CheckNodeLease)) == 0 || len(diagnose.Good(f, probe.CheckPlaced)) > 0 { // inside more is known
		return nil
	}
	for _, family := range []int{4, 6} {
		dead, alive := bySelf(f, family), bySelf(f, 4+6-family)
		by := evidence.Askers(alive.Open)
		dead.Silent = diagnose.Keep(dead.Silent, func(r diagnose.Finding) bool { return slices.Contains(by, r.Node) })
		if len(dead.Open)+len(dead.Refused)+len(alive.Silent) > 0 || len(dead.Silent) < 2 || len(alive.Open) < 2 ||
			slices.ContainsFunc(dead.Silent, evidence.Addressless) {
			continue
		}
		c := diagnose.Case{
			About: diagnose.FamilyName(family), Family: family,
			Says: fmt.Sprintf("{node} answers %s over %s, but not over %s: its routes, its routing rules or its "+
				"firewall of that family", strings.Join(by, ", "), diagnose.FamilyName(4+6-family), diagnose.FamilyName(family)),
			For: append(diagnose.Suggests(dead.Silent), diagnose.Hints(alive.Open)...), Covers: evidence.KubeletGone,
			Args: map[string]diagnose.Arg{"dead": diagnose.NumberArg(float64(family))},
		}
		if slices.ContainsFunc(dead.Silent, resolves) {
			c.Says += "; the link works, because its address is resolved there"
		}
		return []diagnose.Case{c}
	}
	return nil
}

// resolves reports whether a neighbour resolved an address on the link. addressless reports whether it could not: see
// address-unanswered.
func resolves(r diagnose.Finding) bool { return r.Facts.Str(link.FactNeighbour) == "reachable" }

// bySelf returns the answers, including pings, that neighbours got from the node's addresses of a family. A neighbour
// without a route proves nothing about the node, and neither does the ssh port, which may be closed.
func bySelf(f diagnose.Findings, family int) evidence.Reached {
	var out evidence.Reached
	for _, r := range f.Elsewhere(link.NeighbourReach.ID) {
		if diagnose.FamilyOf(r) != family || !ofAddress(r) || !strings.HasPrefix(r.Target, f.Node+" ") {
			continue
		}
		received, _ := r.Facts.Num(probe.FactReceived)
		switch {
		case r.Status == probe.OK, received > 0:
			out.Open = append(out.Open, r)
		case r.Status == probe.Skip, r.Status == probe.Unknown, diagnose.ReasonOf(r) == evidence.NoRoute:
		case probe.IsReply(diagnose.ReasonOf(r)):
			out.Refused = append(out.Refused, r)
		case r.Facts[probe.FactPort] != float64(sshPort):
			out.Silent = append(out.Silent, r)
		}
	}
	return out
}

const sshPort = 22

// ofAddress reports whether a result is about an address of the node, NODE ADDRESS icmp or tcp PORT, and not about a
// pod.
func ofAddress(r diagnose.Finding) bool {
	words := strings.Fields(r.Target)
	return len(words) > 2 && slices.Contains([]string{"icmp", "tcp"}, words[2])
}
