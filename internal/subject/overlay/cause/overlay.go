package cause

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/calico-probe/calico-probe/internal/diagnose"
	"github.com/calico-probe/calico-probe/internal/subject/bgp"
	"github.com/calico-probe/calico-probe/internal/subject/cni"
	"github.com/calico-probe/calico-probe/internal/subject/evidence"
	"github.com/calico-probe/calico-probe/internal/subject/felix"
	"github.com/calico-probe/calico-probe/internal/subject/link"
	"github.com/calico-probe/calico-probe/internal/subject/overlay"
	"github.com/calico-probe/calico-probe/internal/subject/pod"
	"github.com/calico-probe/calico-probe/internal/subject/route"
	"github.com/calico-probe/calico-probe/probe"
)

// tunnelDevice is a tunnel that is not as Calico registered it.
var tunnelDevice = &diagnose.Rule{
	ID: "tunnel-device", Layer: diagnose.LayerRoutes,
	Title: "this node's tunnel device is missing, down or different from Calico's record",
	Doc:   `Felix makes a device for the tunnel and keeps it as registered: its address, VNI, port, MAC, and the address it sends from. When it is not so, Felix does not run or cannot write, or somebody else changed it: NetworkManager, systemd-networkd, a second VXLAN with the same VNI and port. Then nothing comes through in either direction, while the nodes ping each other.`,
	Fix:   evidence.StartAnew, RuledOut: []string{link.NodePing.ID, bgp.BGPSession.ID},
	Explains: []string{"tunnel-peers", "tunnel-filtered", "peer-pods", "route-not-made"},
	Match: func(f diagnose.Findings) []diagnose.Case {
		var out []diagnose.Case
		for _, r := range f.Failed(overlay.OverlayTunnels.ID) {
			if len(diagnose.ListOf(r, probe.FactFaults)) > 0 {
				out = append(out, diagnose.Case{About: r.Target, Family: diagnose.FamilyOf(r), Says: "the tunnel of {node} carries nothing: " +
					r.Saw, For: diagnose.Proves([]diagnose.Finding{r}), Covers: evidence.OverPods(f)})
			}
		}
		return out
	},
}

// tunnelPeers are other nodes that this node's tunnel does not know.
var tunnelPeers = &diagnose.Rule{
	ID: "tunnel-peers", Layer: diagnose.LayerRoutes, Title: "this node's VXLAN tunnel has no entry for some nodes",
	Doc: `For every other node Felix writes a neighbour (its tunnel address has that MAC) and a forwarding entry (that MAC is behind the node's own address). Where one is missing or leads elsewhere, pods of that node are not reached from here, and all others are: Felix has not received the node or its new address (it hangs, or lost its Typha), or something else flushed the tables.`,
	Fix: evidence.StartAnew, RuledOut: []string{link.NodePing.ID}, Wants: []string{felix.FelixLive.ID},
	Explains: []string{"tunnel-filtered", "peer-pods", "route-not-made"},
	Match: func(f diagnose.Findings) []diagnose.Case {
		var out []diagnose.Case
		for _, r := range f.Failed(overlay.OverlayTunnels.ID) {
			if cut := diagnose.ListOf(r, overlay.FactCutOff); len(cut) > 0 {
				out = append(out, diagnose.Case{About: r.Target, Family: diagnose.FamilyOf(r), Says: "the tunnel of {node} does not lead to some nodes: " +
					strings.Join(cut, "; "), For: diagnose.Proves([]diagnose.Finding{r}), Covers: evidence.OverPods(f)})
			}
		}
		return out
	},
}

// tunnelSourceUnknown is a set of hosts that lacks some.
var tunnelSourceUnknown = &diagnose.Rule{
	ID: "tunnel-source-unknown", Layer: diagnose.LayerPaths, Title: "this node's firewall drops tunnel packets from some nodes",
	Doc: `Felix lets IPIP and VXLAN in only from addresses in its set of nodes (cali40all-hosts-net, cali40all-vxlan-net). One that is not there sends in vain: ping between the nodes works, pods across them do not. Felix has not received that node or its new address, or the node sends from another address than it registered.`,
	Fix: evidence.StartAnew, RuledOut: []string{link.NodePing.ID, bgp.BGPSession.ID},
	Explains: []string{"tunnel-refused", "tunnel-filtered", "peer-pods"},
	Match: func(f diagnose.Findings) []diagnose.Case {
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
	},
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
var tunnelRefused = &diagnose.Rule{
	ID: "tunnel-refused", Layer: diagnose.LayerPaths, Title: "the receiving node's firewall drops tunnel packets",
	Doc: `A probe sent packets of the tunnel and another saw them come in by an interface of the receiving node, and not get past its firewall. So the network between them is fine: it is a host firewall there, or Felix, which takes such packets from registered addresses only.`,
	Fix: probe.Fix{
		Says: "Let the tunnel in on {receiver}: protocol 4 for IPIP, UDP 4789 for VXLAN, UDP 51820 and 51821 for WireGuard. Where it is Felix that drops, register the address that the sender uses.",
		Manifest: []string{"calico-probe run --node {receiver} --checks ipset-hosts,node-firewall,ip-registered",
			"ssh {receiver} sudo nft list ruleset | grep -n -i -e drop -e reject"},
		Radius: evidence.OnlyReads,
	},
	RuledOut: []string{link.NodePing.ID}, Explains: []string{"tunnel-filtered", "peer-pods"},
	Match: func(f diagnose.Findings) []diagnose.Case {
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
	},
}

// tunnelFiltered is a tunnel's packet that is lost between the nodes.
var tunnelFiltered = &diagnose.Rule{
	ID: "tunnel-filtered", Layer: diagnose.LayerPaths, Open: true, Apart: true,
	Title: "the network between the nodes drops tunnel packets",
	Doc:   `The nodes ping each other, BGP is up and routes are right, and what Calico packs (IPIP is protocol 4, VXLAN is UDP 4789) is dropped in between: a security group without that protocol, a cloud that carries no IPIP (Azure), a hypervisor that takes UDP 4789 for its own. The deep profile proves it: one probe sends, another one sees nothing come in by any interface. Without that proof it is what is left when everything else is fine.`,
	Fix: probe.Fix{
		Says:     "Let the tunnel's packets through between the nodes (protocol 4 for IPIP, UDP 4789 for VXLAN), or use the other encapsulation or port.",
		Manifest: []string{"calico-probe run --node {node} --profile deep"},
		OnlyIf: []probe.Conditional{
			{If: "something else takes UDP 4789 for its own",
				Manifest: []string{`kubectl patch felixconfigurations.crd.projectcalico.org default --type=merge -p '{"spec":{"vxlanPort":8472}}'`}},
		},
		Radius: "looking: a second probe on another node; another port: every node's tunnel, which carries nothing until all nodes have the new port",
	},
	Wants: []string{overlay.EncapProof.ID}, RuledOut: []string{link.NodePing.ID, bgp.BGPSession.ID,
		route.RouteBlocks.ID, overlay.OverlayTunnels.ID}, Explains: []string{"peer-pods"},
	Match: func(f diagnose.Findings) []diagnose.Case {
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
	},
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
var mtuTooBig = &diagnose.Rule{
	ID: "mtu-too-big", Layer: diagnose.LayerRoutes, Title: "the pods' MTU is larger than the tunnel or interface allows",
	Doc: `What the tunnel adds (20 bytes for IPIP, 50 for VXLAN, 60 for WireGuard) does not fit the interface any more: connections open, small answers come, and large ones hang. The MTU was set by hand, or the interface is one Felix does not look at (bond*, br*, vlan*), or pods are older than a change. Told from a small MTU in the network between the nodes by this node's own numbers.`,
	Fix: probe.Fix{
		Says: "Compare the interface with those of the other nodes. Where only this node's is smaller, give it their MTU; " +
			"else set the MTU of pods to what fits here, {mtu}, and start pods anew: a pod keeps the MTU it was made with.",
		Manifest: []string{
			"ssh {node} ip -d link show",
			"calico-probe run --node {node} --checks cni-mtu,pod-mtu -o wide",
		},
		OnlyIf: []probe.Conditional{
			{If: "only this node's interface is smaller than those of the other nodes",
				Manifest: []string{"ssh {node} sudo ip link set dev DEVICE mtu MTU"}},
			{If: "the interfaces of all nodes are that small", Manifest: setMTU, Operator: setMTUByOperator},
		},
		Radius: "the interface: this node, at once, until it boots (its configuration keeps it). The MTU of pods: every node, calico-node restarts " +
			"on one after the other; new pods get the new MTU, old ones keep theirs until they are replaced",
	},
	RuledOut: []string{bgp.BGPSession.ID, route.RouteBlocks.ID}, Explains: []string{"mtu-path-small"},
	Match: func(f diagnose.Findings) []diagnose.Case {
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
	},
}

// mtuPathSmall is a network that carries less than the nodes think.
var mtuPathSmall = &diagnose.Rule{
	ID: "mtu-path-small", Layer: diagnose.LayerPaths, Open: true,
	Title: "the network between the nodes drops large packets (MTU)",
	Doc:   `Pings and handshakes pass, and full packets vanish without a word: names resolve, connections open, and hang with the first large answer. On this node everything fits (cni-mtu), so it is the network between that takes less than the nodes' interfaces say, and the ICMP message that would tell is not sent or is dropped: a VPN, another overlay below, a cloud's interconnect. Told from a firewall, which loses small packets too.`,
	Fix: probe.Fix{
		Says:     "Have the network carry what the interfaces promise; or set the MTU of pods to what came through from pod to pod, {mtu}, and start pods anew.",
		Manifest: []string{"calico-probe run --node {node} --checks cni-mtu,pod-mtu -o wide"},
		OnlyIf: []probe.Conditional{{If: "the network cannot be made to carry it", Manifest: setMTU,
			Operator: setMTUByOperator}},
		Radius: "every node: calico-node restarts on one after the other; new pods get the new MTU, old ones keep theirs until they are replaced",
	},
	Wants: []string{cni.CNIMTU.ID}, RuledOut: []string{cni.CNIMTU.ID, pod.PodPing.ID, bgp.BGPSession.ID},
	Match: func(f diagnose.Findings) []diagnose.Case {
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
	},
}
