package cause

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/calico-probe/calico-probe/internal/diagnose"
	"github.com/calico-probe/calico-probe/internal/subject/evidence"
	"github.com/calico-probe/calico-probe/internal/subject/firewall"
	"github.com/calico-probe/calico-probe/internal/subject/route"
	"github.com/calico-probe/calico-probe/probe"
)

// lookAtBlock is how to see whose a block is.
var lookAtBlock = []string{
	"kubectl get blockaffinities.crd.projectcalico.org -o custom-columns='NAME:.metadata.name,CIDR:.spec.cidr,NODE:.spec.node,STATE:.spec.state,DELETED:.spec.deleted' | grep -e CIDR -e '{block}'",
	"ssh {node} ip route show {block}",
	"calicoctl ipam check",
}

// podsOf and dropAffinity are what to see first, and then to do, where a node has a
// block it has no use of.
func podsOf(node string) string {
	return "kubectl get pods -A --field-selector spec.nodeName=" + node +
		" -o custom-columns='NAMESPACE:.metadata.namespace,POD:.metadata.name,IPS:.status.podIPs[*].ip'"
}

func dropAffinity(node string) probe.Conditional {
	return probe.Conditional{
		If:       "the first command shows an affinity of " + node + ", and no pod of " + node + " has an address of {block}",
		Manifest: []string{"kubectl delete blockaffinities.crd.projectcalico.org " + node + "-{dashed}"},
	}
}

// ownersOf are the blocks that one of route-blocks' lists names, and whose they are.
func ownersOf(r diagnose.Finding, list probe.Fact) map[string][]string {
	out := map[string][]string{}
	lists, _ := r.Facts[route.FactOwners].(map[string]any)
	blocks, _ := lists[string(list)].(map[string]any)
	for block, nodes := range blocks {
		out[block] = diagnose.ListOf(diagnose.Finding{Result: probe.Result{Facts: probe.Facts{list: nodes}}}, list)
	}
	return out
}

// blocked makes one case of the blocks that a fact of route-blocks lists.
func blocked(f diagnose.Findings, key probe.Fact, says func(list []string) string) []diagnose.Case {
	return blockCases(f, f.Failed(route.RouteBlocks.ID), key, says)
}

func blockCases(f diagnose.Findings, of []diagnose.Finding, key probe.Fact,
	says func(list []string) string) []diagnose.Case {
	var out []diagnose.Case
	for _, r := range of {
		list, owners := diagnose.ListOf(r, key), ownersOf(r, key)
		if len(list) == 0 || len(owners) == 0 {
			continue
		}
		c := diagnose.Case{About: r.Target, Family: diagnose.FamilyOf(r), Says: says(list),
			For: diagnose.Proves([]diagnose.Finding{r})}
		blocks := slices.Sorted(maps.Keys(owners))
		c.Args = map[string]diagnose.Arg{"block": diagnose.BlockArg(blocks[0]), "dashed": diagnose.BlockNameArg(blocks[0])}
		for i, node := range owners[blocks[0]] {
			c.Args[[]string{"one", "other"}[min(i, 1)]] = diagnose.NodeArg(node)
		}
		var nodes []string
		for _, block := range blocks {
			nodes = append(nodes, owners[block]...)
		}
		slices.Sort(nodes)
		nodes = slices.DeleteFunc(slices.Compact(nodes), func(node string) bool { return node == f.Node })
		if len(nodes) == 1 {
			c.Peer = nodes[0]
		}
		for _, node := range nodes {
			c.Covers = append(c.Covers, evidence.PathFollows(f, c.Family, node)...)
		}
		out = append(out, c)
	}
	return out
}

// blockOwnedTwice is a block that IPAM gave to two nodes.
func blockOwnedTwice(f diagnose.Findings) []diagnose.Case {
	return blocked(f, route.FactShared, func(list []string) string {
		return "Calico's IPAM has two owners for " + strings.Join(list, ", ")
	})
}

// interfaceOverlaps is projectcalico/calico#8344.
func interfaceOverlaps(f diagnose.Findings) []diagnose.Case {
	out := blocked(f, route.FactOverlaps, func(list []string) string {
		return "packets from {node} to another node's pods stay on an interface of its own: " + strings.Join(list, "; ")
	})
	for i := range out {
		device := out[i].For[0].Facts.Str(route.FactOverlapOn)
		out[i].Args["device"] = diagnose.DeviceArg(device)
	}
	return out
}

// routeSwallowed is a blackhole route for other nodes' pods.
func routeSwallowed(f diagnose.Findings) []diagnose.Case {
	return blocked(f, route.FactSwallowed, func(list []string) string {
		return fmt.Sprintf("{node} has a blackhole route for %s and drops what is for the pods there",
			strings.Join(list, ", "))
	})
}

// routeElsewhere is a route to the wrong machine.
func routeElsewhere(f diagnose.Findings) []diagnose.Case {
	return append(blocked(f, route.FactWrong, func(list []string) string {
		return "{node} sends packets for other nodes' pods to the wrong place: " + strings.Join(list, ", ")
	}), byHand(f)...)
}

// byHand are manual routes to a router, where Calico's would lead to the node, and the pods there do not answer while
// the node does. Where the routers know the pods such routes are well.
func byHand(f diagnose.Findings) []diagnose.Case {
	_, lives, _ := evidence.Pinged(f)
	all := blockCases(f, f.Of(route.RouteBlocks.ID), route.FactByHand, func(list []string) string {
		return "a manual route on {node} sends traffic for other nodes' pods to a router, and nothing comes back: " +
			strings.Join(list, ", ")
	})
	var out []diagnose.Case
	for _, c := range all {
		lost, answer := evidence.PodsOn(f, c.Peer, c.Family)
		if len(lost) == 0 || len(answer) > 0 || !slices.Contains(lives, c.Peer) {
			continue
		}
		c.For[0].Weight = diagnose.Hint
		c.For = append(append(c.For, diagnose.Hints(lost[:1])...), diagnose.Shows(lost[1:])...)
		if dead := hopSilent(f, c.Peer, c.Family); len(dead) > 0 {
			c.Says += ": " + dead[0].Facts.Str(firewall.FactPlace)
			c.For = append(diagnose.Proves(dead[:1]), c.For...)
		}
		out = append(out, c)
	}
	return out
}

// hopSilent are the pings to pods of another node that are lost because the next hop does not answer ARP or neighbour
// discovery, as the kernel counts.
func hopSilent(f diagnose.Findings, node string, family int) []diagnose.Finding {
	return diagnose.Keep(f.With(firewall.PacketDrops.ID, firewall.FactPlaceKind, firewall.PlaceNeighbour),
		func(r diagnose.Finding) bool {
			return r.Status == probe.Fail && diagnose.NodeOf(r) == node && diagnose.FamilyOf(r) == family
		})
}
