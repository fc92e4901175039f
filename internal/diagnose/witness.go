package diagnose

import (
	"slices"
	"strings"

	"github.com/calico-probe/calico-probe/probe"
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
		case clue.Context:
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
	if r.Facts.Str(probe.FactPlaceIn) == probe.InNode {
		return "" // the word of the kernel of the node, of all packets
	}
	namespace, _, _ := strings.Cut(r.From, "/")
	return namespace
}

// ThirdNodes returns the good results of third nodes about the target of a bad result of this node: what it fails to
// reach on the other node is reached from there. There are none where another third node fails to reach it too.
func ThirdNodes(f Findings, r Finding, peer string) []Finding {
	if r.Node != f.Node || r.From != "" || !IsBad(r.Status) {
		return nil
	}
	third := Keep(f.Elsewhere(r.Check), func(o Finding) bool {
		return o.Node != peer && o.From == "" && o.Target == r.Target
	})
	if slices.ContainsFunc(third, func(o Finding) bool { return IsBad(o.Status) }) {
		return nil
	}
	return Keep(third, func(o Finding) bool { return o.Status == probe.OK })
}

// contradicted is the evidence against a case that takes another node for broken because this one gets no answer from
// it: a third node gets one.
func contradicted(f Findings, rule *Rule, c Case) []Clue {
	if len(rule.RefutedBy) == 0 || c.Peer == "" {
		return nil
	}
	for _, clue := range c.For {
		if seen := ThirdNodes(f, clue.Finding, c.Peer); len(seen) > 0 && slices.Contains(rule.RefutedBy, clue.Check) {
			return Suggests(seen[:1])
		}
	}
	return nil
}
