package diagnose

import (
	"fmt"
	"slices"

	"github.com/calico-probe/calico-probe/internal/subject/link"
	"github.com/calico-probe/calico-probe/internal/subject/pod"
	"github.com/calico-probe/calico-probe/internal/subject/route"
	"github.com/calico-probe/calico-probe/probe"
)

// mostSuspects is how many other nodes are taken for the end of a path that loses packets. Where more are lost, it is
// this node.
const mostSuspects = 2

// Suspects are the other nodes to which packets are lost, while no proven cause explains it: a path has two ends, and
// the whole suite is worth asking on both.
func Suspects(f Findings) []string {
	f = f.indexed()
	all, _ := matched(f, Rules(), false)
	left := unproven(f, all)
	var out []string
	for _, r := range left.where(func(r Finding) bool { return bad(r.Status) }) {
		node := nodeOf(r)
		if node != "" && node != f.Node && !slices.Contains(out, node) && len(lostTowards(left, node)) > 0 {
			out = append(out, node)
		}
	}
	if len(out) > mostSuspects {
		return nil
	}
	return out
}

// causesThere are the causes of what is bad on other nodes that were asked the whole suite, where packets to them are
// lost and no proven cause of this node explains that.
func causesThere(f Findings, all []candidate, rules []*Rule) []candidate {
	if f.isThere {
		return nil
	}
	left := unproven(f, all)
	var out []candidate
	for _, node := range f.Others() {
		there := f.At(node)
		if len(lostTowards(left, node)) == 0 || !there.Answered(link.NodeUplink.ID) {
			continue
		}
		there.isThere = true
		for _, c := range Explain(there, rules).kept {
			if explainsThere(there, c) {
				c.found.About = node
				out = append(out, c)
			}
		}
	}
	return out
}

// comparing are the rules that compare two nodes: the node in question is compared by them already.
var comparing = []string{"node-differs", "peer-firewall", "peer-differs", "peer-fault"}

// explainsThere reports whether a cause on another node can be the reason of what is lost on the way there: it says
// why, it is about that node itself, and packets are lost by it there too.
func explainsThere(there Findings, c candidate) bool {
	vague := c.rule.Symptom || c.rule.Later || c.rule.Open || c.rule.BlamesPeer || slices.Contains(comparing, c.rule.ID)
	if vague || c.found.Peer != "" && c.rule.Layer == LayerPeers || rank(c.cause.Confidence) < rank(probe.Medium) {
		return false
	}
	return slices.ContainsFunc(c.covered, func(at int) bool { return slices.Contains(pathChecks, there.All[at].Check) })
}

// peerFault is a cause of the other end of a path.
var peerFault = &Rule{
	ID: "peer-fault", Layer: LayerPeers, Residual: true, Title: "a fault on the other node explains the loss",
	Doc: `What this node sends to one other node, or to its pods, is lost, nothing on this node explains it, and that node was asked the same checks: there a cause was found that loses packets. It is named with that cause's own sentence.
The confidence is a step lower than on that node, because the two were seen apart, unless that cause also explains pings or connections to this node that are lost from there.
Told from a fault of the network between the two by what that node itself shows.`,
	Fix: probe.Fix{
		Says:     "Correct it on {other}. A run there has the evidence and the commands.",
		Manifest: []string{"calico-probe run --node {other}"},
		Radius:   "a probe on the other node",
	},
	RuledOut: []string{route.RouteBlocks.ID, link.NodeUplink.ID},
	Match: func(f Findings) []Case {
		var out []Case
		for _, c := range f.there {
			node := c.found.About
			lost := lostTowards(f, node)
			if len(lost) == 0 {
				continue
			}
			weight := hint
			if c.cause.Confidence == probe.High {
				weight = strong
				if losesBack(f.At(node), c, f.Node) {
					weight = proof
				}
			}
			one := Case{About: node + " " + c.rule.ID, Peer: node,
				Says: fmt.Sprintf("what {node} sends to %s or its pods is lost, and the fault is on %s (%s): %s", node, node, c.rule.ID,
					withoutBraces(c.cause.Says)),
				For:  append(clues(weight, lost), clues(0, evidenceThere(c))...),
				Args: map[string]Arg{"other": nodeArg(node)}}
			for _, r := range lost {
				one.Covers = append(one.Covers, Cover{Check: r.Check, About: r.Target})
			}
			one.Covers = append(one.Covers, pathFollows(f, 0, node)...)
			out = append(out, one)
		}
		return out
	},
}

// losesBack reports whether a cause on another node explains what that node loses on the way to this one.
func losesBack(there Findings, c candidate, node string) bool {
	paths := []string{link.NodePing.ID, pod.PodPing.ID, pod.PodTCP.ID}
	lost := keep(lostTowards(there, node), func(r Finding) bool {
		return r.Status == probe.Fail && slices.Contains(paths, r.Check)
	})
	return slices.ContainsFunc(c.covered, func(at int) bool {
		r := there.All[at]
		return slices.ContainsFunc(lost, func(l Finding) bool { return l.Check == r.Check && l.Target == r.Target })
	})
}

// shownThere is how many results of another node's cause are shown.
const shownThere = 3

// evidenceThere are the first results that speak for a cause on another node.
func evidenceThere(c candidate) []Finding {
	var out []Finding
	for _, clue := range c.found.For[:min(len(c.found.For), shownThere)] {
		out = append(out, clue.Finding)
	}
	return out
}
