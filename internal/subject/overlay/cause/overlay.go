package cause

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/calico-probe/calico-probe/internal/diagnose"
	"github.com/calico-probe/calico-probe/internal/subject/cni"
	"github.com/calico-probe/calico-probe/internal/subject/evidence"
	"github.com/calico-probe/calico-probe/internal/subject/link"
	"github.com/calico-probe/calico-probe/internal/subject/overlay"
	"github.com/calico-probe/calico-probe/internal/subject/pod"
	"github.com/calico-probe/calico-probe/internal/subject/route"
	"github.com/calico-probe/calico-probe/probe"
)

// tunnelDevice is a tunnel that is not as Calico registered it.
func tunnelDevice(f diagnose.Findings) []diagnose.Case {
	var out []diagnose.Case
	for _, r := range f.Failed(overlay.OverlayTunnels.ID) {
		if len(diagnose.ListOf(r, probe.FactFaults)) > 0 {
			out = append(out, diagnose.Case{About: r.Target, Family: diagnose.FamilyOf(r), Says: "the tunnel of {node} carries nothing: " +
				r.Saw, For: diagnose.Proves([]diagnose.Finding{r}), Covers: evidence.OverPods(f)})
		}
	}
	return out
}

// tunnelPeers are other nodes that this node's tunnel does not know.
func tunnelPeers(f diagnose.Findings) []diagnose.Case {
	var out []diagnose.Case
	for _, r := range f.Failed(overlay.OverlayTunnels.ID) {
		if cut := diagnose.ListOf(r, overlay.FactCutOff); len(cut) > 0 {
			out = append(out, diagnose.Case{About: r.Target, Family: diagnose.FamilyOf(r), Says: "the tunnel of {node} does not lead to some nodes: " +
				strings.Join(cut, "; "), For: diagnose.Proves([]diagnose.Finding{r}), Covers: evidence.OverPods(f)})
		}
	}
	return out
}

// tunnelSourceUnknown is a set of hosts that lacks some.
func tunnelSourceUnknown(f diagnose.Findings) []diagnose.Case {
	var out []diagnose.Case
	for _, r := range f.Failed(overlay.IPSetHosts.ID) {
		if absent := diagnose.ListOf(r, overlay.FactAbsent); len(absent) > 0 {
			out = append(out, diagnose.Case{
				About: r.Target, Family: diagnose.FamilyOf(r), Says: fmt.Sprintf("{node} drops tunnelled packets from %s: not in %s",
					strings.Join(absent, ", "), r.Facts.Str(overlay.FactSet)),
				For: diagnose.Proves([]diagnose.Finding{r}), Covers: evidence.OverPods(f),
			})
		}
	}
	return out
}

// proven are the paths in use that a pair of probes found closed.
func proven(f diagnose.Findings, fits func(wire, passed bool) bool) []diagnose.Finding {
	return diagnose.Keep(f.Failed(overlay.EncapProof.ID), func(r diagnose.Finding) bool {
		wire, heard := r.Facts[overlay.FactWire].(bool)
		passed, _ := r.Facts[overlay.FactPassed].(bool)
		return heard && fits(wire, passed)
	})
}

// lostPods are pods of other nodes from which this node itself gets no answer.
func lostPods(f diagnose.Findings) []diagnose.Finding {
	return diagnose.Keep(f.Failed(pod.PodPing.ID), func(r diagnose.Finding) bool {
		return diagnose.NodeOf(r) != f.Node && r.From == "" &&
			diagnose.ReasonOf(r) == ""
	})
}

// borneOut is what a pair of probes found, one of them the other node's: proof where pods of
// other nodes are lost from here too.
func borneOut(f diagnose.Findings, got []diagnose.Finding) []diagnose.Clue {
	return append(diagnose.Suggests(got), diagnose.Hints(lostPods(f))...)
}

// tunnelRefused is a tunnel's packet that came in and was dropped.
func tunnelRefused(f diagnose.Findings) []diagnose.Case {
	by := map[string][]diagnose.Finding{} // the node whose firewall it is
	for _, r := range proven(f, func(wire, passed bool) bool { return wire && !passed }) {
		receiver := r.Facts.Str(overlay.FactReceiver)
		by[receiver] = append(by[receiver], r)
	}
	var out []diagnose.Case
	for _, receiver := range slices.Sorted(maps.Keys(by)) {
		got := by[receiver]
		c := diagnose.Case{
			About: receiver, Args: map[string]diagnose.Arg{"receiver": diagnose.NodeArg(receiver)}, For: diagnose.Proves(got),
			Covers: evidence.OverPods(f),
			Says:   fmt.Sprintf("packets of the tunnel reach %s and its own firewall drops them: %s", receiver, got[0].Target),
		}
		if receiver != f.Node {
			c.Peer = receiver
			c.For = borneOut(f, got)
		}
		out = append(out, c)
	}
	return out
}

// tunnelFiltered is a tunnel's packet that is lost between the nodes.
func tunnelFiltered(f diagnose.Findings) []diagnose.Case {
	if got := proven(f, func(wire, _ bool) bool { return !wire }); len(got) > 0 {
		return []diagnose.Case{{Family: diagnose.FamilyOf(got[0]), Says: "packets of the tunnel are sent and do not arrive: " + got[0].Target,
			For: borneOut(f, got), Covers: evidence.OverPods(f)}}
	}
	lost := lostPods(f)
	if len(lost) == 0 || !f.Fine(overlay.OverlayTunnels.ID) || !f.Fine(route.RouteBlocks.ID) ||
		!f.Fine(link.NodePing.ID) || f.Answered(overlay.EncapProof.ID) {
		return nil
	}
	return []diagnose.Case{{
		Family: diagnose.FamilyOf(lost[0]), Says: "what {node} sends through the tunnel does not come back, while nodes, routes and tunnels are as they should be",
		For:    append(diagnose.Suggests(lost), diagnose.Shows(f.Of(overlay.OverlayTunnels.ID))...),
		Covers: evidence.OverPods(f),
	}}
}

// setMTU and setMTUByOperator give pods another MTU. A node alone says which, and the commands change
// every node: so they fail until somebody has set it.
var (
	setMTU = []string{
		"kubectl -n {namespace} get configmap {config} -o jsonpath='{.data.veth_mtu}'",
		`kubectl -n {namespace} patch configmap {config} --type=merge -p '{"data":{"veth_mtu":"'"${MTU:?first set it}"'"}}' && kubectl -n {namespace} rollout restart daemonset/{daemonset}`,
	}
	setMTUByOperator = []string{
		"kubectl get installation default -o jsonpath='{.spec.calicoNetwork.mtu}'",
		`kubectl patch installation default --type=merge -p '{"spec":{"calicoNetwork":{"mtu":'"${MTU:?first set it}"'}}}'`,
	}
)

// isMTU tells whether pods can have that MTU: what is less does not carry IPv6.
func isMTU(n float64) bool { return n >= 1280 && n <= 9000 }

// remeasure is the fix where nobody could say what fits.
var remeasure = &probe.Fix{
	Says: "What would fit is not known: have it measured, then set the MTU of pods to it and start pods anew.",
	Manifest: []string{
		"calico-probe run --node {node} --checks cni-mtu,pod-mtu -o wide",
		"ssh {node} ip -d link show",
	},
	Radius: evidence.OnlyReads,
}

// mtuTooBig are pods that send more than fits.
func mtuTooBig(f diagnose.Findings) []diagnose.Case {
	wrong, lost := f.Bad(cni.CNIMTU.ID), f.Failed(pod.PodMTU.ID)
	if len(wrong) == 0 {
		return nil
	}
	weight := diagnose.Strong
	if wrong[0].Status == probe.Warn && len(lost) == 0 { // no packet was lost: path MTU discovery may do
		weight = diagnose.Hint
	}
	room, _ := wrong[0].Facts.Num(cni.FactRoom)
	c := diagnose.Case{
		Says: "packets of pods on {node} do not fit: " + wrong[0].Saw, Fix: remeasure,
		For: append(diagnose.Clues(weight, wrong), diagnose.Hints(lost)...), Covers: diagnose.Covers(pod.PodMTU.ID),
	}
	if isMTU(room) {
		c.Args, c.Fix = map[string]diagnose.Arg{"mtu": diagnose.NodesWord(fmt.Sprint(room), "MTU")}, nil
	}
	return []diagnose.Case{c}
}

// mtuPathSmall is a network that carries less than the nodes think.
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
		For: diagnose.Suggests(lost), Fix: remeasure,
		Says: fmt.Sprintf("large packets between {node} and %s vanish on the way, though the interfaces promise more",
			strings.Join(nodes, ", ")),
	}
	if isMTU(float64(smallest)) {
		c.Args, c.Fix = map[string]diagnose.Arg{"mtu": diagnose.NodesWord(fmt.Sprint(smallest), "MTU")}, nil
		c.Says = fmt.Sprintf("packets of more than %d bytes between {node} and %s vanish on the way, though the interfaces promise more", smallest, strings.Join(nodes, ", "))
	}
	if len(nodes) == 1 {
		c.Peer = nodes[0]
	}
	if f.Fine(cni.CNIMTU.ID) {
		c.For = append(c.For, diagnose.Hints(f.Of(cni.CNIMTU.ID))...)
	}
	return []diagnose.Case{c}
}
