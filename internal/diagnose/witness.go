package diagnose

import (
	"slices"
	"strings"

	"github.com/calico-probe/calico-probe/probe"
)

// If most evidence comes from only one other node, or from the pods of one namespace, soleWitness returns its name. It
// returns "" if the node itself and the API report as much or are sufficient proof, or if two other nodes agree. A node
// may lie about another node, and a pod's owner controls what a check in the pod sees, so the confidence is limited.
func soleWitness(f Findings, evidence, against []Clue) string {
	var who []string
	for _, clue := range evidence {
		if w := witnessOf(f, clue.Finding); w != "" && !clue.Context && !slices.Contains(who, w) {
			who = append(who, w)
		}
	}
	if len(who) != 1 {
		return ""
	}
	// This node itself can confirm another node's claim about that other node: the other node does not answer.
	theirs := func(clue Clue) bool {
		return witnessOf(f, clue.Finding) != "" || NodeOf(clue.Finding) == who[0] && unanswered(clue.Finding)
	}
	var seenHere []string // the checks in which the node itself or the API reports the same
	for _, clue := range evidence {
		if !clue.Context && !theirs(clue) {
			seenHere = append(seenHere, clue.Check)
		}
	}
	own, others, here := 0, 0, 0 // here counts what the node itself observes, including silent peers
	for _, clue := range against {
		here -= clue.Weight
	}
	for _, clue := range evidence {
		if witnessOf(f, clue.Finding) == "" {
			here += clue.Weight
		}
		if theirs(clue) && !slices.Contains(seenHere, clue.Check) {
			others += clue.Weight
		} else {
			own += clue.Weight
		}
	}
	if others <= own || here >= Proof {
		return ""
	}
	if slices.ContainsFunc(evidence, func(c Clue) bool { return c.Node == f.Node && witnessOf(f, c.Finding) == who[0] }) {
		return "pods of namespace " + who[0]
	}
	if slices.ContainsFunc(evidence, func(c Clue) bool { return c.Weight > 0 && c.Node == f.Node && theirs(c) }) {
		return who[0] + ", and in its missing answers"
	}
	return who[0]
}

// unanswered reports whether a result is bad because there was no reply.
func unanswered(r Finding) bool {
	received, counted := r.Facts.Num(probe.FactReceived)
	return IsBad(r.Status) && (ReasonOf(r) == "timeout" || counted && received == 0)
}

// witnessOf returns the source of a finding: another node, a namespace whose pods' owner controls it, or "" for the
// node itself and the API.
func witnessOf(f Findings, r Finding) string {
	if r.Node != f.Node {
		return r.Node
	}
	if r.Facts.Str(probe.FactPlaceIn) == probe.InNode {
		return "" // the node's kernel reports about all packets
	}
	namespace, _, _ := strings.Cut(r.From, "/")
	return namespace
}

// ThirdNodes returns third nodes' good results about the target of this node's bad result. They show that those nodes
// reach the target. It returns nil if any third node also fails.
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

// contradicted returns the evidence against a case that blames another node for not answering this node: a third node
// gets an answer from it.
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
