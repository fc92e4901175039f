package cause

import (
	"fmt"
	"slices"
	"strings"

	"github.com/calico-probe/calico-probe/internal/diagnose"
	"github.com/calico-probe/calico-probe/internal/subject/bgp"
	"github.com/calico-probe/calico-probe/internal/subject/evidence"
	"github.com/calico-probe/calico-probe/internal/subject/link"
	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/probe/facts"
)

// addressUnanswered is a node that lives, and nobody answers for its address.
var addressUnanswered = &diagnose.Rule{
	ID: "address-unanswered", Layer: diagnose.LayerKernel,
	Title: "the node is alive, but its registered address does not answer",
	Doc: `The Node and Calico have an address that no machine on the link answers ARP or NDP for any more, while the node itself lives: its lease is renewed, its address of the other family answers, or its pods do. Either the interface lost its address (a DHCP lease that ended, a restart of the network service), or it has another one now (DHCP, a new configuration, a move by the cloud) and the Node still has the old one: the kubelet was started with --node-ip, or has not restarted since. The API server does not reach the kubelet, so nothing can be read of the node or placed there, and peers lose its routes.
Told from a node that is off by what answers; from a firewall by ARP and NDP, which lie below it.`,
	Fix: probe.Fix{
		Says: "Give the node its address back; or register the new one with the kubelet and with Calico.",
		Manifest: []string{
			"kubectl get node {node} -o wide  # what is registered",
			"# on the node, by its console, or by ssh at its other address: ip -br addr; grep -rn node-ip /var/lib/kubelet/kubeadm-flags.env /etc/default/kubelet /etc/systemd/system/kubelet.service.d",
		},
		OnlyIf: []probe.Conditional{{If: "the new address is to stay, and the kubelet's --node-ip has it: calico-node looks for it at its start",
			Manifest: []string{"kubectl -n {namespace} delete pod {pod}"}}},
		Radius: "reading changes nothing; a new address ends this node's BGP sessions and tunnels for seconds",
	},
	Explains: []string{"kubelet-silent", "kubelet-cut-off", "node-unreachable", "peer-down", "node-cut-off",
		"kubelet-port-blocked"},
	Match: func(f diagnose.Findings) []diagnose.Case {
		var out []diagnose.Case
		for _, mute := range f.Elsewhere(link.NeighbourReach.ID) {
			got, asked := mute.Facts.Num(probe.FactReceived)
			address, icmp := strings.CutSuffix(strings.TrimPrefix(mute.Target, f.Node+" "), " icmp")
			if !icmp || diagnose.NodeOf(mute) != f.Node || !asked || got > 0 || !evidence.Addressless(mute) {
				continue
			}
			if slices.ContainsFunc(evidence.AllElsewhere(f),
				func(r diagnose.Finding) bool { return diagnose.FamilyOf(r) == diagnose.FamilyOf(mute) }) {
				continue // the address of a network that joins no nodes
			}
			lives := diagnose.Keep(f.Elsewhere(link.NeighbourReach.ID), func(r diagnose.Finding) bool {
				return diagnose.NodeOf(r) == f.Node && r.Status == probe.OK && r.Node == mute.Node &&
					!strings.Contains(r.Target, address)
			})
			renewed := diagnose.Good(f, facts.CheckNodeLease)
			if len(lives) == 0 && len(renewed) == 0 ||
				slices.ContainsFunc(out, func(c diagnose.Case) bool { return c.Family == diagnose.FamilyOf(mute) }) {
				continue
			}
			c := diagnose.Case{About: address, Family: diagnose.FamilyOf(mute),
				Args: map[string]diagnose.Arg{"address": diagnose.AddressArg(address)},
				For:  append(diagnose.Suggests([]diagnose.Finding{mute}), diagnose.Hints(append(lives, renewed...))...)}
			what := "its lease is renewed"
			if len(lives) > 0 {
				what = strings.TrimPrefix(lives[0].Target, f.Node+" ") + " of it answers"
			}
			c.Says = fmt.Sprintf("no machine answers for {node}'s registered address %s, but {node} is alive (%s): it lost that address, or has another one now", address, what)
			c.Covers = append(slices.Clone(evidence.KubeletGone), diagnose.Covers(probe.CheckPlaced)...)
			if has := f.With(link.IPAutodetect.ID, probe.FactReason, "gone"); len(has) > 0 {
				c.For = append(c.For, diagnose.Hints(has)...)
			}
			out = append(out, c)
		}
		return out
	},
}

// bgpRouterID is one router ID of two BIRDs.
var bgpRouterID = &diagnose.Rule{
	ID: "bgp-router-id", Layer: diagnose.LayerCalico, Title: "two BGP peers have the same router ID",
	Doc: `Each BGP speaker has a router ID, and a session between two with the same one is refused at once by both ("Bad BGP identifier"). calico-node takes the node's IPv4 address, or what CALICO_ROUTER_ID says: one fixed value there, in the DaemonSet that all nodes share, gives them all the same. "hash" gives each its own, of its name, which on a cluster without IPv4 it has to be. Machines that were cloned with their address have the same ID too.
Told from a peer that does not answer by its answer; from a wrong AS number by BIRD's words.`,
	Fix: probe.Fix{
		Says: "Let each node have its own: take CALICO_ROUTER_ID away where nodes have IPv4 addresses, else set it to hash.",
		Manifest: []string{
			"kubectl -n {namespace} set env ds/{daemonset} -c calico-node --list | grep CALICO_ROUTER_ID",
		},
		Operator: []string{"kubectl -n calico-system get ds calico-node -o yaml | grep -A1 CALICO_ROUTER_ID  # the operator has no such setting: who changed the DaemonSet?"},
		OnlyIf: []probe.Conditional{
			{If: "it is set there, and nodes have IPv4 addresses",
				Manifest: []string{"kubectl -n {namespace} set env ds/{daemonset} -c calico-node CALICO_ROUTER_ID-"}},
			{If: "it is set there, and nodes have none",
				Manifest: []string{"kubectl -n {namespace} set env ds/{daemonset} -c calico-node CALICO_ROUTER_ID=hash"}},
		},
		Radius: "every node: calico-node restarts on one after the other; sessions of a node drop for seconds meanwhile",
	},
	RuledOut: []string{bgp.BGPPort.ID, link.NodePing.ID},
	Explains: []string{"bgp-rejected", "peer-bird-dead", "bgp-unknown-peer", "bgp-waits", "bgp-one-way",
		"peer-down", "bgp-restart-hold", "peer-pods"},
	Match: func(f diagnose.Findings) []diagnose.Case {
		by := map[int][]diagnose.Finding{}
		for _, r := range f.Bad(bgp.BGPSession.ID) {
			if diagnose.ReasonOf(r) == "bad-id" {
				by[diagnose.FamilyOf(r)] = append(by[diagnose.FamilyOf(r)], r)
			}
		}
		var out []diagnose.Case
		for _, family := range []int{4, 6} {
			down := by[family]
			if len(down) == 0 {
				continue
			}
			c := diagnose.Case{About: diagnose.FamilyName(family), Family: family, For: diagnose.Proves(down),
				Covers: evidence.PathFollows(f,
					family, "")}
			var peers []string
			for _, r := range down {
				peers = append(peers, r.Target)
			}
			c.Says = fmt.Sprintf("BIRD on {node} and its peer %s have the same router ID",
				strings.Join(peers[:min(len(peers), 3)], ", "))
			for _, bird := range evidence.BirdOf(f, bgp.BirdSocket.ID, family) {
				id := bird.Facts.Str(bgp.FactRouterID)
				if id == "" {
					continue
				}
				c.Says += " " + id
				c.For = append(c.For, diagnose.Shows([]diagnose.Finding{bird})...)
				if own := diagnose.Keep(f.Of(facts.CheckIPRegistered),
					func(r diagnose.Finding) bool { return r.Facts.Str(facts.Registered) == id }); len(own) == 0 {
					c.Says += ", which is not {node}'s address: CALICO_ROUTER_ID sets it, for all nodes of the DaemonSet"
				} else {
					c.Says += ", which is {node}'s address: the other end has it from CALICO_ROUTER_ID, or is a copy of this node"
				}
				break
			}
			out = append(out, c)
		}
		return out
	},
}

// tunnelSettings are two ends of a tunnel that are not set alike.
var tunnelSettings = &diagnose.Rule{
	ID: "tunnel-settings", Layer: diagnose.LayerCalico,
	Title: "this node's tunnel settings differ from the other nodes'",
	Doc: `A FelixConfiguration for this node alone (node.NAME, or one whose nodeSelector takes it) gives it another VXLAN port or VNI, or switches a tunnel or WireGuard on or off for it. Each end sends to its own port: the other hears nothing there, and nothing is wrong with the devices, routes and neighbours of either. Nodes ping each other, pods of different nodes do not.
Told from a firewall by the settings themselves, which the API has.`,
	Fix: probe.Fix{
		Says: "Give all nodes the same setting: in the FelixConfiguration default, and in no other.",
		Manifest: []string{
			"kubectl get felixconfigurations.crd.projectcalico.org -o yaml | grep -nE '^    name:|vxlan|ipip|wireguardEnabled|nodeSelector'",
		},
		OnlyIf: []probe.Conditional{{If: "node.{node} has it and the others are right",
			Manifest: []string{`kubectl patch felixconfigurations.crd.projectcalico.org node.{node} --type json -p '[{"op":"remove","path":"/spec/{setting}"}]'`}}},
		Radius: "this node: Felix restarts and makes the tunnel anew; pods lose those of other nodes for a second",
	},
	RuledOut: []string{link.NodePing.ID, bgp.BGPSession.ID},
	Explains: []string{"tunnel-device", "tunnel-peers", "tunnel-refused", "tunnel-filtered",
		"tunnel-source-unknown", "peer-pods", "peer-nodeports"},
	Match: func(f diagnose.Findings) []diagnose.Case {
		var out []diagnose.Case
		lost := evidence.OverPods(f)
		for _, r := range f.Bad(facts.CheckTunnelSettings) {
			c := diagnose.Case{About: r.Target, Says: "{node}'s tunnel does not fit those of the other nodes: " + r.Saw,
				Args: map[string]diagnose.Arg{"setting": diagnose.CheckedArg(r.Target, diagnose.IsWord(r.Target) &&
					!strings.ContainsAny(r.Target, "./"), "SETTING")},
				Covers: lost}
			switch {
			case r.Status == probe.Fail && len(lost) > 0:
				c.For = diagnose.Proves([]diagnose.Finding{r})
			case len(lost) > 0:
				c.For = diagnose.Suggests([]diagnose.Finding{r})
			default:
				c.For = diagnose.Hints([]diagnose.Finding{r})
			}
			out = append(out, c)
		}
		return out
	},
}
