package diagnose

import (
	"slices"

	"github.com/calico-probe/calico-probe/probe"
)

// maxSuspects is the maximum number of other nodes that can be suspects for lost packets. If paths to more nodes lose
// packets, this node is the cause.
const maxSuspects = 2

// Suspects returns the other nodes to which packets are lost without a proven cause. A path has two ends, so it is
// worthwhile to run the whole suite on both.
func Suspects(f Findings, suite Suite) []string {
	f = f.Indexed()
	f.suite = suite
	all, _ := matched(f, false)
	left := unproven(f, all)
	var out []string
	for _, r := range left.Where(func(r Finding) bool { return IsBad(r.Status) }) {
		node := NodeOf(r)
		if node != "" && node != f.Node && !slices.Contains(out, node) && left.loses(node) {
			out = append(out, node)
		}
	}
	if len(out) > maxSuspects {
		return nil
	}
	return out
}

// loses reports whether packets to another node are lost.
func (f Findings) loses(node string) bool {
	return f.suite.Lost != nil && len(f.suite.Lost(f, node)) > 0
}

// A RemoteCause is a cause on another node because of which this node's packets are lost.
type RemoteCause struct {
	Node     string
	Cause    probe.Cause
	Shows    []Finding // the first results of its evidence
	Explains []Finding // the bad results there that follow from it
}

// RemoteCauses returns the causes on other nodes.
func (f Findings) RemoteCauses() []RemoteCause { return f.there }

// shownThere is the maximum number of a remote cause's results to show.
const shownThere = 3

// causesThere returns causes on other nodes that ran the whole suite. It considers a node only if packets to it are
// lost without a proven cause on this node.
func causesThere(f Findings, all []candidate) []RemoteCause {
	if f.isThere {
		return nil
	}
	left := unproven(f, all)
	var out []RemoteCause
	for _, node := range f.Others() {
		there := f.At(node)
		if !left.loses(node) || !there.Answered(f.suite.Whole) {
			continue
		}
		there.isThere = true
		for _, c := range Explain(there, f.suite).kept {
			if !explainsThere(there, c) {
				continue
			}
			one := RemoteCause{Node: node, Cause: c.cause}
			for _, clue := range c.found.For[:min(len(c.found.For), shownThere)] {
				one.Shows = append(one.Shows, clue.Finding)
			}
			for _, at := range c.covered {
				one.Explains = append(one.Explains, there.All[at])
			}
			out = append(out, one)
		}
	}
	return out
}

// explainsThere reports whether a cause on another node may explain the lost packets. It must be about that node itself
// and not a symptom, and its consequences there must include lost packets.
func explainsThere(there Findings, c candidate) bool {
	vague := c.rule.Symptom || c.rule.Later || c.rule.Open || len(c.rule.RefutedBy) > 0 || c.rule.Compares
	if vague || c.found.Peer != "" && c.rule.Layer == LayerPeers || rank(c.cause.Confidence) < rank(probe.Medium) {
		return false
	}
	return slices.ContainsFunc(c.covered, func(at int) bool {
		return slices.Contains(there.suite.Paths, there.All[at].Check)
	})
}
