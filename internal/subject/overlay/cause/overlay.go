package cause

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/calico-probe/calico-probe/internal/diagnose"
	"github.com/calico-probe/calico-probe/internal/subject/cni"
	"github.com/calico-probe/calico-probe/internal/subject/evidence"
	"github.com/calico-probe/calico-probe/internal/subject/overlay"
	"github.com/calico-probe/calico-probe/internal/subject/pod"
	"github.com/calico-probe/calico-probe/probe"
)

// tunnelRefused matches tunnel packets that arrived but were dropped by the receiving node's firewall.
func tunnelRefused(f diagnose.Findings) []diagnose.Case {
	by := map[string][]diagnose.Finding{} // the node whose firewall it is
	for _, r := range f.Failed(overlay.EncapProof.ID) {
		if receiver := r.Facts.Str(overlay.FactReceiver); r.Facts[overlay.FactWire] == true &&
			r.Facts[overlay.FactPassed] != true {
			by[receiver] = append(by[receiver], r)
		}
	}
	lost := diagnose.Keep(f.Failed(pod.PodPing.ID), func(r diagnose.Finding) bool {
		return diagnose.NodeOf(r) != f.Node && r.From == "" && diagnose.ReasonOf(r) == ""
	})
	var out []diagnose.Case
	for _, receiver := range slices.Sorted(maps.Keys(by)) {
		got := by[receiver]
		c := diagnose.Case{
			About: receiver, Args: map[string]diagnose.Arg{"receiver": diagnose.NodeArg(receiver)}, For: diagnose.Proves(got),
			Covers: evidence.OverPods(f),
			Says:   fmt.Sprintf("tunnel packets reach %s, but its own firewall drops them: %s", receiver, got[0].Target),
		}
		if receiver != f.Node { // then it is proof only where pods of other nodes are lost from here too
			c.Peer, c.For = receiver, append(diagnose.Suggests(got), diagnose.Hints(lost)...)
		}
		out = append(out, c)
	}
	return out
}

// mtuPathSmall matches a network with a smaller MTU than the nodes' interfaces.
func mtuPathSmall(f diagnose.Findings) []diagnose.Case {
	lost := f.Failed(pod.PodMTU.ID)
	if len(lost) == 0 {
		return nil
	}
	smallest, nodes := 0, []string{}
	for _, r := range lost {
		if n, ok := r.Facts.Num(probe.FactPasses); ok && (smallest == 0 || int(n) < smallest) {
			smallest = int(n)
		}
		if node := diagnose.NodeOf(r); node != "" && !slices.Contains(nodes, node) {
			nodes = append(nodes, node)
		}
	}
	c := diagnose.Case{
		For: diagnose.Suggests(lost), FixName: "measure-mtu",
		Says: fmt.Sprintf("large packets between {node} and %s are lost on the way, although the interfaces allow more",
			strings.Join(nodes, ", ")),
	}
	if smallest >= 1280 && smallest <= 9000 { // IPv6 needs at least 1280
		c.Args, c.FixName = map[string]diagnose.Arg{"mtu": diagnose.NodesWord(fmt.Sprint(smallest), "MTU")}, ""
		c.Says = fmt.Sprintf("packets of more than %d bytes between {node} and %s are lost on the way, although the interfaces allow more", smallest, strings.Join(nodes, ", "))
	}
	if len(nodes) == 1 {
		c.Peer = nodes[0]
	}
	if f.Fine(cni.CNIMTU.ID) {
		c.For = append(c.For, diagnose.Hints(f.Of(cni.CNIMTU.ID))...)
	}
	return []diagnose.Case{c}
}
