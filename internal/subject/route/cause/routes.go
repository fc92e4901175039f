package cause

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/calico-probe/calico-probe/internal/diagnose"
	"github.com/calico-probe/calico-probe/internal/subject/bgp"
	"github.com/calico-probe/calico-probe/internal/subject/evidence"
	"github.com/calico-probe/calico-probe/internal/subject/firewall"
	"github.com/calico-probe/calico-probe/internal/subject/link"
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
var blockOwnedTwice = &diagnose.Rule{
	ID: "block-owned-twice", Layer: diagnose.LayerRoutes, Title: "two nodes claim the same IPAM block",
	Doc: `Two affinities name one block, so both nodes announce it and others send to the one or the other, or to both in turn: some connections work and others do not. It is left behind by a failed release, a restored backup of the datastore, or a node that was renamed.`,
	Fix: probe.Fix{
		Says:     "See which of {one} and {other} has pods with addresses of {block}, and delete the affinity of the other one.",
		Manifest: append(slices.Clone(lookAtBlock), podsOf("{one}"), podsOf("{other}")),
		OnlyIf:   []probe.Conditional{dropAffinity("{one}"), dropAffinity("{other}")},
		Radius:   "reading changes nothing; deleting an affinity ends the announcement of that block by that node, which is harmless only where no pod of it has such an address",
	},
	Explains: []string{"route-elsewhere", "route-swallowed"},
	Match: func(f diagnose.Findings) []diagnose.Case {
		return blocked(f, route.FactShared, func(list []string) string {
			return "Calico's IPAM has two owners for " + strings.Join(list, ", ")
		})
	},
}

// interfaceOverlaps is projectcalico/calico#8344.
var interfaceOverlaps = &diagnose.Rule{
	ID: "interface-overlaps-pods", Layer: diagnose.LayerRoutes,
	Title: "an interface of this node holds addresses of another node's pods",
	Doc: `A bridge or another interface that is not Calico's (virbr0 of libvirt, docker0, cni0 of an earlier CNI, a VPN) has a range that is a block of another node, or a part of one. The kernel makes a route for it that wins over Calico's, so packets for the pods there go to that interface and are lost, while the session is up and every other node reaches them. The API shows none of it.
Told from a route that leads to the wrong machine by the interface, which is this node's own.`,
	Fix: probe.Fix{
		Says: "See whose the interface is. Where nothing uses it, delete it and what makes it again at boot; else give it a range outside of Calico's pools.",
		Manifest: []string{
			"ssh {node} ip -d addr show dev {device}",
			"ssh {node} 'sudo virsh net-list --all; sudo docker network ls; ls /etc/cni/net.d'  # what makes such interfaces",
			"kubectl get ippools.crd.projectcalico.org -o custom-columns=NAME:.metadata.name,CIDR:.spec.cidr",
		},
		OnlyIf: []probe.Conditional{{If: "nothing uses {device}: until the next boot",
			Manifest: []string{"ssh {node} sudo ip link set {device} down"}}},
		Radius: "reading changes nothing; an interface that is down carries nothing any more, the pods or machines behind it are cut off",
	},
	RuledOut: []string{bgp.BGPSession.ID, link.NodePing.ID},
	Explains: []string{"route-elsewhere", "route-swallowed", "route-not-in-kernel", "route-not-made", "peer-pods",
		"peer-nodeports", "tunnel-filtered", "dns-down", "service-path-broken"},
	Match: func(f diagnose.Findings) []diagnose.Case {
		out := blocked(f, route.FactOverlaps, func(list []string) string {
			return "packets from {node} to another node's pods stay on an interface of its own: " + strings.Join(list, "; ")
		})
		for i := range out {
			device := out[i].For[0].Facts.Str(route.FactOverlapOn)
			out[i].Args["device"] = diagnose.DeviceArg(device)
		}
		return out
	},
}

// routeSwallowed is a blackhole route for other nodes' pods.
var routeSwallowed = &diagnose.Rule{
	ID: "route-swallowed", Layer: diagnose.LayerRoutes, Title: "a blackhole route drops packets to another node's pods",
	Doc: `There is a blackhole route on this node for a block that belongs to another one. Every node has such routes for its own blocks, by BIRD (static1) or Felix; one for a foreign block is left over from when the block was this node's: an affinity that was not deleted, or an announcement this node did not take back. It wins over what BGP learns, so the session is up, all others reach those pods, and this node does not. Told from a missing route by the kernel's own answer.`,
	Fix: probe.Fix{
		Says:     "See whose the block is; delete an affinity of {node} that is left over, then start calico-node of {node} anew.",
		Manifest: append(slices.Clone(lookAtBlock), podsOf("{node}")),
		OnlyIf: []probe.Conditional{dropAffinity("{node}"),
			{If: "{node} has no affinity for it any more, and the route stays", Manifest: []string{evidence.RestartCalico}}},
		Radius: "reading changes nothing; deleting an affinity ends what {node} announces of that block; the restart is of this node's calico-node alone, pods keep running",
	},
	RuledOut: []string{bgp.BGPSession.ID, link.NodePing.ID},
	Match: func(f diagnose.Findings) []diagnose.Case {
		return blocked(f, route.FactSwallowed, func(list []string) string {
			return fmt.Sprintf("{node} has a blackhole route for %s and drops what is for the pods there",
				strings.Join(list, ", "))
		})
	},
}

// routeElsewhere is a route to the wrong machine.
var routeElsewhere = &diagnose.Rule{
	ID: "route-elsewhere", Layer: diagnose.LayerRoutes,
	Title: "a route sends traffic for other nodes' pods to the wrong machine",
	Doc:   `The kernel sends packets for a block to another machine than the one IPAM says it belongs to, or to several at once. Somebody announces a block that is no longer his (an affinity left over there), or somebody made a route by hand; who made it is the route's protocol: bird, 80 for Felix, static or boot for people and scripts.`,
	Fix: probe.Fix{
		Says: "See who announces or made it, and take that away there.",
		Manifest: append(slices.Clone(lookAtBlock),
			"calico-probe run --node {node} --checks route-blocks,route-can-reach,bgp -o wide"),
		Radius: evidence.OnlyReads,
	},
	RuledOut: []string{bgp.BGPSession.ID, link.NodePing.ID},
	Match: func(f diagnose.Findings) []diagnose.Case {
		return append(blocked(f, route.FactWrong, func(list []string) string {
			return "{node} sends packets for other nodes' pods to the wrong place: " + strings.Join(list, ", ")
		}), byHand(f)...)
	},
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

// routeNotInKernel is a route that BIRD has and the kernel has not.
var routeNotInKernel = &diagnose.Rule{
	ID: "route-not-in-kernel", Layer: diagnose.LayerRoutes, Title: "BIRD has routes to other nodes' pods that the kernel lacks",
	Doc: `Sessions are up and BIRD has the routes, so nothing is wrong with BGP, ports or peers: the routes do not get into the kernel. Its kernel protocol is down or filters them, the next hop is not reached, or somebody takes them away as soon as they are there: NetworkManager does that with interfaces it manages (cali*, tunl*), systemd-networkd with foreign routes. Told from a graceful restart, in which BIRD holds them back on purpose and says so.`,
	Fix: probe.Fix{
		Says: "See who takes them away or keeps them back, and tell NetworkManager to leave Calico's interfaces alone.",
		Manifest: []string{"ssh {node} 'timeout 10 ip monitor route'",
			"ssh {node} 'systemctl is-active NetworkManager systemd-networkd; cat /etc/NetworkManager/conf.d/*.conf'", "kubectl -n {namespace} exec {pod} -c calico-node -- sh -c 'sed -n \"/protocol kernel/,/}/p\" /etc/calico/confd/config/bird.cfg'"},
		Radius: evidence.OnlyReads,
	},
	RuledOut: []string{link.NodePing.ID, bgp.BGPPort.ID},
	Match: func(f diagnose.Findings) []diagnose.Case {
		var out []diagnose.Case
		for _, r := range f.Failed(route.RouteBlocks.ID) {
			known := diagnose.ListOf(r, route.FactInBIRD)
			if len(known) == 0 {
				continue
			}
			c := diagnose.Case{
				About: r.Target, Family: diagnose.FamilyOf(r), For: diagnose.Suggests([]diagnose.Finding{r}),
				Covers: evidence.PathFollows(f, diagnose.FamilyOf(r), ""),
				Says:   fmt.Sprintf("BIRD on {node} has %s and the kernel has no such route", strings.Join(known, ", ")),
			}
			for _, s := range f.Of(bgp.BGPSession.ID) {
				switch state := s.Facts.Str(bgp.FactKernelState); {
				case diagnose.FamilyOf(s) != diagnose.FamilyOf(r) || s.Facts.Str(bgp.FactPeer) != "":
				case s.Status == probe.Fail: // sessions are up, and the protocol is down or not there
					c.For = append(c.For, diagnose.Hints([]diagnose.Finding{s})...)
				case state != "":
					c.For = append(c.For, diagnose.Shows([]diagnose.Finding{s})...)
				}
			}
			out = append(out, c)
		}
		return out
	},
}
