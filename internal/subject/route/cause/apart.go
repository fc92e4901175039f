package cause

import (
	"fmt"
	"strings"

	"github.com/calico-probe/calico-probe/internal/diagnose"
	"github.com/calico-probe/calico-probe/internal/subject/evidence"
	"github.com/calico-probe/calico-probe/internal/subject/link"
	"github.com/calico-probe/calico-probe/internal/subject/pod"
	"github.com/calico-probe/calico-probe/internal/subject/route"
	"github.com/calico-probe/calico-probe/probe"
)

// pingChecks are the checks by whose answers nodesApart stands in for the cause that they refute.
var pingChecks = []string{link.NodePing.ID, pod.PodPing.ID}

// nodesApart is what keeps this node and one other from each other, while a third node reaches both.
var nodesApart = &diagnose.Rule{
	ID: "nodes-apart", Layer: diagnose.LayerPeers, Symptom: true,
	Title: "two nodes cannot reach each other, but a third node reaches both",
	Doc: `This node gets no answer from another node or its pods, and a third node gets one from the very same address. So neither machine is off, and the other one's forwarding, tunnel and pods work. Something concerns this one pair: a firewall rule or a ban list with the other's address, a wrong neighbour entry or a host route for it, or a network device between the two.
Told from a node that is down, and from one whose pods are unreachable, by the third node's answers.`,
	Fix: probe.Fix{
		Says: "Look on both nodes for what names the other's address: rules and sets of the firewall, neighbour entries, routes. With nothing on either, it is the network between the two.",
		Manifest: []string{"calico-probe run --node {other}",
			"ssh {node} 'sudo nft list ruleset | grep -n -F {address}; ip neigh show {address}; ip route get {address}'",
			"ssh {other} 'sudo nft list ruleset | grep -n -i -e drop -e reject; ip neigh; ip route'"},
		Radius: "a probe on the other node; the others only read",
	},
	RuledOut: []string{route.RouteBlocks.ID, link.NodeUplink.ID},
	Explains: []string{"peer-down", "peer-pods", "peer-nodeports", "bgp-waits", "bgp-one-way"},
	Match: func(f diagnose.Findings) []diagnose.Case {
		var out []diagnose.Case
		done := map[string]bool{}
		for _, check := range pingChecks {
			for _, r := range f.Bad(check) {
				peer := diagnose.NodeOf(r)
				seen := diagnose.ThirdNodes(f, r, peer)
				if peer == "" || peer == f.Node || done[peer] || evidence.Arrived(r) || len(seen) == 0 {
					continue
				}
				done[peer] = true
				_, address, _ := strings.Cut(r.Target, " ")
				says := fmt.Sprintf("{node} gets no answer from %s, and %s does: something keeps just {node} and %s apart",
					r.Target, seen[0].Node, peer)
				if len(evidence.Askers(seen)) == 1 {
					says += "; seen only from " + seen[0].Node
				}
				out = append(out, diagnose.Case{About: peer, Peer: peer,
					Args:   map[string]diagnose.Arg{"other": diagnose.NodeArg(peer), "address": diagnose.AddressArg(address)},
					Says:   says,
					For:    append(diagnose.Suggests([]diagnose.Finding{r}), diagnose.Shows(seen[:1])...),
					Covers: evidence.PathFollows(f, 0, peer)})
			}
		}
		return out
	},
}
