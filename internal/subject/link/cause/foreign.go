package cause

import (
	"fmt"
	"strings"

	"github.com/calico-probe/calico-probe/internal/diagnose"
	"github.com/calico-probe/calico-probe/internal/subject/evidence"
	"github.com/calico-probe/calico-probe/internal/subject/route"
	"github.com/calico-probe/calico-probe/probe"
)

// duplicateAddress is another node's address on an interface of this one.
var duplicateAddress = &diagnose.Rule{
	ID: "duplicate-address", Layer: diagnose.LayerKernel, Title: "this node also has an address of another node",
	Doc: `Two machines have one address: it was added by hand, came with a cloned image, a static configuration or a virtual address that moved without leaving (keepalived). What this node sends to the other one it gives to itself: connections are refused or answered by the wrong machine, BIRD finds no way to the next hop, and the kernel rejects the routes. On the link, who wins changes with each ARP answer, so others lose the other node now and then.
Told from a node that is down by this node's own interfaces, which have the address; from an old Node of this machine, which nobody reports for, by the InternalIP, which is this node's (address-taken).`,
	Fix: probe.Fix{
		Says: "Find out to whom the address belongs, and take it off the other machine and out of what sets it.",
		Manifest: []string{"ssh {node} ip -o addr show | grep -F {address}", "kubectl get nodes -o wide | grep -F {address}",
			"ssh {node} sudo grep -rnF {address} /etc/netplan /etc/network /etc/sysconfig/network-scripts /etc/keepalived"},
		OnlyIf: []probe.Conditional{{If: "it belongs to {other}",
			Manifest: []string{"ssh {node} sudo ip addr del {address}/PREFIXLENGTH dev {device}  # as the first command shows it"}}},
		Radius: "reading changes nothing; taking it off touches what is bound to it on this node, and opens the way to {other}",
	},
	Explains: []string{"calico-ends", "route-not-in-kernel", "route-not-made", "peer-nodeports",
		"peer-pods", "bgp-waits", "bgp-one-way",
		"peer-bird-dead", "bgp-wrong-as", "bgp-filtered", "peer-down", "dns-down", "service-path-broken", "tunnel-filtered"},
	Match: func(f diagnose.Findings) []diagnose.Case {
		var out []diagnose.Case
		for _, r := range f.Failed(route.RouteCanReach.ID) {
			device, address, peer := r.Facts.Str(route.FactOwnedBy), diagnose.LastWord(r.Target), diagnose.NodeOf(r)
			if device == "" || address == "" || evidence.OldNode(f, peer, address) {
				continue
			}
			whose := peer
			if whose == "" {
				whose = "the BGP peer " + strings.Fields(r.Target)[0]
			}
			c := diagnose.Case{
				About: strings.TrimSpace(peer + " " + address), Peer: peer, Family: diagnose.FamilyOf(r),
				Args: map[string]diagnose.Arg{"address": diagnose.AddressArg(address), "device": diagnose.DeviceArg(device),
					"other": diagnose.NodeArg(peer)},
				Says: fmt.Sprintf("%s, the address of %s, is on %s of {node} too", address, whose, device),
				For:  diagnose.Proves([]diagnose.Finding{r}), Covers: evidence.PathFollows(f, diagnose.FamilyOf(r), peer),
			}
			evidence.DetectedTwice(f, &c, peer, address)
			out = append(out, c)
		}
		return out
	},
}
