package cause

import (
	"fmt"
	"slices"

	"github.com/calico-probe/calico-probe/internal/diagnose"
	"github.com/calico-probe/calico-probe/internal/subject/evidence"
	"github.com/calico-probe/calico-probe/internal/subject/link"
	"github.com/calico-probe/calico-probe/internal/subject/pod"
	"github.com/calico-probe/calico-probe/probe"
)

// peerFault matches a cause at the other end of a path.
func peerFault(f diagnose.Findings) []diagnose.Case {
	var out []diagnose.Case
	for _, c := range f.RemoteCauses() {
		node := c.Node
		lost := evidence.LostTowards(f, node)
		if len(lost) == 0 {
			continue
		}
		weight := diagnose.Hint
		if c.Cause.Confidence == probe.High {
			weight = diagnose.Strong
			if losesBack(f.At(node), c, f.Node) {
				weight = diagnose.Proof
			}
		}
		one := diagnose.Case{About: node + " " + c.Cause.ID, Peer: node,
			Says: fmt.Sprintf("packets from {node} to %s or its pods are lost, and its own results show the fault on %s (%s): %s", node, node, c.Cause.ID,
				diagnose.WithoutBraces(c.Cause.Says)),
			For:  append(diagnose.Clues(weight, lost), diagnose.Shows(c.Shows)...),
			Args: map[string]diagnose.Arg{"other": diagnose.NodeArg(node)}}
		for _, r := range lost {
			one.Covers = append(one.Covers, diagnose.Cover{Check: r.Check, About: r.Target})
		}
		one.Covers = append(one.Covers, evidence.PathFollows(f, 0, node)...)
		out = append(out, one)
	}
	return out
}

// losesBack reports whether a cause on another node explains that node's losses on the path to this node.
func losesBack(there diagnose.Findings, c diagnose.RemoteCause, node string) bool {
	paths := []string{link.NodePing.ID, pod.PodPing.ID, pod.PodTCP.ID}
	lost := diagnose.Keep(evidence.LostTowards(there, node), func(r diagnose.Finding) bool {
		return r.Status == probe.Fail && slices.Contains(paths, r.Check)
	})
	return slices.ContainsFunc(c.Explains, func(r diagnose.Finding) bool {
		return slices.ContainsFunc(lost, func(l diagnose.Finding) bool { return l.Check == r.Check && l.Target == r.Target })
	})
}
