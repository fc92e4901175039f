package cause

import (
	"fmt"
	"slices"
	"strings"

	"github.com/calico-probe/calico-probe/internal/diagnose"
	"github.com/calico-probe/calico-probe/internal/subject/evidence"
	"github.com/calico-probe/calico-probe/internal/subject/link"
	"github.com/calico-probe/calico-probe/internal/subject/route"
	"github.com/calico-probe/calico-probe/probe"
)

// interfaceOverlapsNodes is a network of a bridge, a VPN or a second NIC that has the addresses of other nodes in it.
var interfaceOverlapsNodes = &diagnose.Rule{
	ID: "interface-overlaps-nodes", Layer: diagnose.LayerKernel,
	Title: "an interface's network on this node contains other nodes' addresses",
	Doc: `Docker, libvirt, a VPN or a second NIC gave an interface of this node a network that contains addresses of other nodes. The kernel makes a route for that network. It is more specific than the route of the nodes' own link, so it wins, and packets for those nodes leave by the wrong interface. BGP, tunnels, node ports and pods of those nodes fail from here; the other nodes and all other paths are well.
Docker takes such a network where its default address pools contain the nodes' network.
Told from a peer that is down by the route, which leads to another interface than the one with the node's address; from an interface that overlaps pods by the addresses.`,
	Fix: probe.Fix{
		Says: "Give {device} another network, or delete it if nothing uses it; then exclude the nodes' network from what creates it (Docker: default-address-pools and bip in /etc/docker/daemon.json).",
		Manifest: []string{
			"ssh {node} ip route get {address}",
			"ssh {node} ip -d addr show dev {device}",
			"ssh {node} 'sudo docker network ls; sudo virsh net-list --all; ls /etc/cni/net.d'  # what makes such interfaces",
		},
		OnlyIf: []probe.Conditional{{If: "nothing uses {device}: until the next boot",
			Manifest: []string{"ssh {node} sudo ip link set {device} down"}}},
		Radius: "reading changes nothing; an interface that is down cuts off the containers or machines behind it",
	},
	RuledOut: []string{link.NodeUplink.ID},
	Explains: []string{"peer-down", "peer-pods", "peer-nodeports", "peer-address", "bgp-filtered", "bgp-waits",
		"bgp-rejected", "node-unreachable", "node-cut-off", "nodes-apart", "service-path-broken", "dns-down",
		"dropped-here", "neighbour-wrong"},
	Match: func(f diagnose.Findings) []diagnose.Case {
		var out []diagnose.Case
		for _, r := range f.Of(route.RouteCanReach.ID) {
			device, network := r.Facts.Str(probe.FactInterface), r.Facts.Str(route.FactMatch)
			if diagnose.NodeOf(r) == "" || r.From != "" || r.Facts.Str(route.FactRouteProto) != "kernel" ||
				r.Facts.Str(probe.FactRegistered) == "" || slices.Contains(uplinks(f, diagnose.FamilyOf(r)), device) {
				continue
			}
			lost := diagnose.Keep(f.Failed(link.NodePing.ID), func(p diagnose.Finding) bool {
				return p.From == "" && !evidence.Arrived(p) &&
					p.Target == r.Target
			})
			if len(lost) == 0 || len(uplinks(f, diagnose.FamilyOf(r))) == 0 {
				continue
			}
			address := diagnose.LastWord(r.Target)
			out = append(out, diagnose.Case{
				About: diagnose.NodeOf(r), Peer: diagnose.NodeOf(r), Family: diagnose.FamilyOf(r),
				Says: fmt.Sprintf("%s of {node} has network %s, which contains the address %s of %s: packets for it leave by %s and are lost",
					device, network, address, diagnose.NodeOf(r), device),
				For:  append(diagnose.Suggests([]diagnose.Finding{r}), diagnose.Suggests(lost)...),
				Args: map[string]diagnose.Arg{"device": diagnose.DeviceArg(device), "address": diagnose.AddressArg(address)},
				Covers: append(evidence.PathFollows(f, diagnose.FamilyOf(r), diagnose.NodeOf(r)),
					diagnose.Covers(link.NeighbourReach.ID)...),
			})
		}
		return out
	},
}

// uplinks are the interfaces with the node's own address of a family.
func uplinks(f diagnose.Findings, family int) []string {
	var out []string
	for _, r := range f.Of(link.NodeUplink.ID) {
		if device, _, _ := strings.Cut(r.Target, " "); diagnose.FamilyOf(r) == family && device != "" {
			out = append(out, device)
		}
	}
	return out
}
