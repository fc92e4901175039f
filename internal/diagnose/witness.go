package diagnose

import (
	"slices"
	"strings"

	"github.com/calico-probe/calico-probe/internal/subject/firewall"
)

// soleWitness says of the other node, or of the pods of a namespace, that most of the evidence rests on their word
// alone; "" where the node itself and the API say as much, or two others say it. A node may lie about
// another one, and what is asked inside a pod passes the rules of the pod's owner.
func soleWitness(f Findings, evidence []Clue) string {
	var who []string
	var seenHere []string // the checks that the node itself, or the API, answered so
	for _, clue := range evidence {
		w := witnessOf(f, clue.Finding)
		switch {
		case clue.context:
		case w == "":
			seenHere = append(seenHere, clue.Check)
		case !slices.Contains(who, w):
			who = append(who, w)
		}
	}
	own, others := 0, 0
	for _, clue := range evidence {
		if witnessOf(f, clue.Finding) == "" || slices.Contains(seenHere, clue.Check) {
			own += clue.Weight
		} else {
			others += clue.Weight
		}
	}
	if others > own && len(who) == 1 {
		if slices.ContainsFunc(evidence, func(c Clue) bool { return c.Node == f.Node && witnessOf(f, c.Finding) == who[0] }) {
			return "pods of namespace " + who[0]
		}
		return who[0]
	}
	return ""
}

// witnessOf is whose word a finding is: another node's, that of the owner of the pods of a
// namespace, or "" for the node itself and the API.
func witnessOf(f Findings, r Finding) string {
	if r.Node != f.Node {
		return r.Node
	}
	if r.Check == firewall.PacketDrops.ID && r.Facts.Str(firewall.FactPlaceIn) == firewall.InNode {
		return "" // the word of the kernel of the node, of all packets
	}
	namespace, _, _ := strings.Cut(r.From, "/")
	return namespace
}

// witnesses are what neighbours say that got no answer at all from this node, and what those
// say that got one.
func witnesses(f Findings) (silent, heard []Finding) {
	all := fromOutside(f, anyPort)
	heard = slices.Concat(all.open, all.refused)
	return keep(all.silent, func(r Finding) bool { return !slices.Contains(askers(heard), r.Node) }), heard
}
