package cause

import (
	"strings"

	"github.com/calico-probe/calico-probe/internal/diagnose"
	"github.com/calico-probe/calico-probe/internal/subject/bgp"
	"github.com/calico-probe/calico-probe/internal/subject/evidence"
	"github.com/calico-probe/calico-probe/internal/subject/link"
	"github.com/calico-probe/calico-probe/internal/subject/pod"
	"github.com/calico-probe/calico-probe/internal/subject/route"
	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/probe/facts"
)

// bgpNoPeers is a node to which nobody tells routes.
var bgpNoPeers = &diagnose.Rule{
	ID: "bgp-no-peers", Layer: diagnose.LayerPeers, Title: "no BGP peer is configured for this node, so it learns no routes",
	Doc: `BIRD makes the routes to other nodes' pods of what its peers tell it. With nodeToNodeMeshEnabled false these are the BGPPeers: where none is for the node, because their nodeSelector or peerSelector takes no node (a label that was never set, or went with a node that was made anew), because the address or selector of one cannot be read, or because the mesh was switched off first, BIRD runs, calico-node is Ready, bgp-session has nothing to complain of, and pods reach only those of their own node.
Told from sessions that are down by there being none; from a network that knows the pods by itself by the routes, or the pods elsewhere, which are missed here.`,
	Fix: probe.Fix{
		Says: "Give the node a peer: set the label that the BGPPeer asks for, switch the mesh on, or remove the annotation that takes a node out of the mesh.",
		Manifest: []string{
			"kubectl get bgppeers.crd.projectcalico.org -o custom-columns=NAME:.metadata.name,NODE:.spec.node,NODES:.spec.nodeSelector,PEER:.spec.peerIP,PEERS:.spec.peerSelector",
			"kubectl get nodes --show-labels",
			"kubectl get bgpconfigurations.crd.projectcalico.org default -o jsonpath='{.spec.nodeToNodeMeshEnabled}'",
		},
		OnlyIf: []probe.Conditional{{If: "{reflector} is not meant to be a route reflector, and has that annotation",
			Manifest: []string{"kubectl annotate node {reflector} projectcalico.org/RouteReflectorClusterID-"}}, {If: "all nodes may peer with each other",
			Manifest: []string{`kubectl patch bgpconfigurations.crd.projectcalico.org default --type merge -p '{"spec":{"nodeToNodeMeshEnabled":true}}'`}}},
		Radius: "reading changes nothing; the mesh gives every node a session with every other one",
	},
	RuledOut: []string{bgp.BirdSocket.ID, link.NodePing.ID},
	Explains: []string{"peer-pods", "route-not-in-kernel", "tunnel-filtered", "pods-filtered", "dns-down",
		"service-path-broken"},
	Match: func(f diagnose.Findings) []diagnose.Case {
		none := f.With(facts.CheckBGPPeering, probe.FactReason, facts.NoBGPPeer)
		none = append(none, f.With(facts.CheckBGPPeering, probe.FactReason, facts.BadBGPPeer)...)
		if len(none) == 0 {
			return nil
		}
		missed := f.Failed(route.RouteBlocks.ID)
		for _, check := range []string{pod.PodPing.ID, pod.PodTCP.ID} {
			missed = append(missed, diagnose.Keep(f.Failed(check), func(r diagnose.Finding) bool {
				return diagnose.NodeOf(r) != "" && diagnose.NodeOf(r) != f.Node
			})...)
		}
		if len(missed) == 0 { // the network knows the pods
			return nil
		}
		c := diagnose.Case{Says: "no other node tells {node} where its pods are: " + none[0].Saw,
			For:    append(diagnose.Suggests(none), diagnose.Hints(missed)...),
			Covers: append(evidence.PathFollows(f, 0, ""), diagnose.Covers(route.RouteBlocks.ID, facts.CheckBGPPeering)...)}
		c.Args = map[string]diagnose.Arg{"reflector": diagnose.NodeArg(f.Node)}
		if at := diagnose.ListOf(none[0], facts.Reflectors); len(at) > 0 {
			c.Args["reflector"] = diagnose.NodeArg(at[0])
		}
		if idle := diagnose.ListOf(none[0], facts.IdlePeers); len(idle) > 0 && !strings.Contains(none[0].Saw, idle[0]) {
			c.Says += " (" + idle[0] + ")"
		}
		return []diagnose.Case{c}
	},
}
