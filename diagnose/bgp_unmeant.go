package diagnose

import (
	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/probe/checks"
	"github.com/calico-probe/calico-probe/probe/facts"
)

// bgpUnmeant is a node that Calico's own resources leave without a peer, as of projectcalico/calico#3785.
var bgpUnmeant = &Rule{
	ID: "bgp-no-peer", Layer: LayerCalico, Title: "Calico's resources give this node no BGP peer",
	Doc: `Every node peers with every other (the mesh of nodes) until BGPConfiguration turns that off. A node with the annotation projectcalico.org/RouteReflectorClusterID is left out of the mesh, as a route reflector whose peers BGPPeers name. Where none names it, because the annotation was left behind or the mesh was turned off before the BGPPeers were there, BIRD runs without a peer and calls itself ready: no session is down, and there is no route to a pod on another node.
Told from a BIRD that was not told of its peers by the resources, which name none.`,
	Fix: probe.Fix{
		Says: "Give the node its peers again: take the annotation away, turn the mesh on, or write the BGPPeers that were meant.",
		Manifest: []string{"kubectl get node {node} -o yaml | grep projectcalico.org/",
			"kubectl get bgpconfigurations.crd.projectcalico.org,bgppeers.crd.projectcalico.org -o yaml"},
		OnlyIf: []probe.Conditional{
			{If: "the node is not meant to be a route reflector",
				Manifest: []string{"kubectl annotate node {node} projectcalico.org/RouteReflectorClusterID-"}},
			{If: "the mesh was meant to stay on",
				Manifest: []string{`kubectl patch bgpconfigurations.crd.projectcalico.org default --type merge -p '{"spec":{"nodeToNodeMeshEnabled":true}}'`}},
		},
		Radius: "reading changes nothing; sessions come up within seconds, with every node that is in the mesh",
	},
	RuledOut: []string{checks.BirdSocket.ID},
	Explains: []string{"route-not-made", "peer-pods", "peer-nodeports"},
	Match: func(f Findings) []Case {
		unmeant := keep(f.Of(facts.CheckCalicoKind), func(r Finding) bool { return r.Facts.Str(facts.NoSessions) != "" })
		missing := keep(f.Failed(checks.RouteBlocks.ID), func(r Finding) bool {
			return len(listOf(r, checks.FactNoRoute)) > 0
		})
		if len(unmeant) == 0 || len(missing) == 0 {
			return nil
		}
		return []Case{{
			Says:   "no BGP session is meant for {node}, so it has no route to other nodes' pods: " + unmeant[0].Facts.Str(facts.NoSessions),
			For:    append(clues(proof, unmeant[:1]), clues(0, missing)...),
			Covers: append(pathFollows(f, 0, ""), Covers(checks.RouteBlocks.ID)...),
		}}
	},
}
