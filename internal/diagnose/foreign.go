package diagnose

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/calico-probe/calico-probe/internal/subject/bgp"
	"github.com/calico-probe/calico-probe/internal/subject/felix"
	"github.com/calico-probe/calico-probe/internal/subject/firewall"
	"github.com/calico-probe/calico-probe/internal/subject/link"
	"github.com/calico-probe/calico-probe/internal/subject/overlay"
	"github.com/calico-probe/calico-probe/internal/subject/pod"
	"github.com/calico-probe/calico-probe/internal/subject/route"
	"github.com/calico-probe/calico-probe/internal/subject/service"
	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/probe/facts"
)

// duplicateAddress is another node's address on an interface of this one.
var duplicateAddress = &Rule{
	ID: "duplicate-address", Layer: LayerKernel, Title: "this node also has an address of another node",
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
	Match: func(f Findings) []Case {
		var out []Case
		for _, r := range f.Failed(route.RouteCanReach.ID) {
			device, address, peer := r.Facts.Str(route.FactOwnedBy), lastWord(r.Target), nodeOf(r)
			if device == "" || address == "" || oldNode(f, peer, address) {
				continue
			}
			whose := peer
			if whose == "" {
				whose = "the BGP peer " + strings.Fields(r.Target)[0]
			}
			c := Case{
				About: strings.TrimSpace(peer + " " + address), Peer: peer, Family: familyOf(r),
				Args: map[string]Arg{"address": addressArg(address), "device": deviceArg(device), "other": nodeArg(peer)},
				Says: fmt.Sprintf("%s, the address of %s, is on %s of {node} too", address, whose, device),
				For:  Proves([]Finding{r}), Covers: pathFollows(f, familyOf(r), peer),
			}
			detectedTwice(f, &c, peer, address)
			out = append(out, c)
		}
		return out
	},
}

// detectedTwice adds that Calico's detection picks the address here as well, as it did on the other node: on machines
// whose first NIC is alike, as VirtualBox makes them.
func detectedTwice(f Findings, c *Case, peer, address string) {
	picks := f.With(link.IPAutodetect.ID, link.FactPicked, address)
	there := f.At(peer).With(facts.CheckIPRegistered, facts.Registered, address)
	if len(picks) == 0 || len(there) == 0 || there[0].Facts.Str(facts.Internal) == address { // it may be the other's own
		return
	}
	internal, _, _ := strings.Cut(textsOf(picks[0], link.FactAlternatives)["kubernetes-internal-ip"], " ")
	if internal == "" || internal == address {
		return
	}
	c.Says += fmt.Sprintf("; that is no InternalIP: calico-node finds it on both by %s", picks[0].Facts.Str(link.FactMethod))
	c.For = append(c.For, Suggests(picks[:1])...)
	c.Fix = &setMethod
	maps.Copy(c.Args, methodFor(c.Family, internal, picks[0]))
	c.Covers = slices.Concat(c.Covers, calicoDown, Covers(facts.CheckIPRegistered))
}

// foreignRoutingRule is projectcalico/calico#4662.
var foreignRoutingRule = &Rule{
	ID: "foreign-ip-rule", Layer: LayerKernel,
	Title: "a foreign routing rule diverts or rejects pod traffic",
	Doc: `A rule that comes before the main table ("ip rule") has packets from the node's own address, or from pods, looked up in a table of its own, in which Calico's routes are not: they leave by the gateway and are lost. Or it has them dropped or rejected ("unreachable"), and Calico's own reverse-path check drops what goes between those pods too. nm-cloud-setup makes such rules (table 30400 and up) for each address that a cloud gives the node; cloud-init, VPNs and policy routing made by hand do as well. The routes that everybody looks at are right all the while: the node itself does not reach its own pods, so the kubelet's probes fail and host-network clients time out, while pods reach each other.
Told from a wrong route by the kernel's own answer for the same packet with and without the sender's address.`,
	Fix: probe.Fix{
		Says: "Switch off what makes the rule, or have its table hold Calico's routes as well; then delete the rule.",
		Manifest: []string{
			"ssh {node} 'ip rule; ip route show table {table}'",
			"ssh {node} systemctl is-enabled tailscaled.service nm-cloud-setup.service nm-cloud-setup.timer",
		},
		OnlyIf: []probe.Conditional{
			{If: "Tailscale makes it (table 52) for an exit node, and you do not reach the node by that",
				Manifest: []string{"ssh {node} tailscale status", "ssh {node} sudo tailscale set --exit-node="}},
			{If: "Tailscale makes it for routes of others that it accepts, and you do not reach the node by one of them",
				Manifest: []string{"ssh {node} sudo tailscale set --accept-routes=false"}},
			{If: "nm-cloud-setup makes it (table 30400 and up)", Manifest: []string{"ssh {node} sudo systemctl disable --now nm-cloud-setup.service nm-cloud-setup.timer"}},
			{If: "nothing needs it any more", Manifest: []string{"ssh {node} sudo ip rule del pref {pref}"}},
		},
		Radius: "reading changes nothing; without the rule what it was made for (a second address, a VPN) takes the main table's way too",
	},
	RuledOut: []string{route.RouteBlocks.ID, route.RoutePods.ID, bgp.BGPSession.ID},
	Explains: []string{"service-path-broken", "dns-down", "dns-no-upstream", "peer-pods", "tunnel-filtered",
		"peer-nodeports", "bgp-waits", "pod-route-missing", "route-not-in-kernel", "dropped-here", "source-unexpected"},
	Match: func(f Findings) []Case {
		var out []Case
		for _, r := range f.Failed(route.RouteRules.ID) {
			if r.Facts.Str(probe.FactRule) == "" {
				continue
			}
			c := Case{
				About: familyName(familyOf(r)), Family: familyOf(r), Says: "on {node} " + r.Saw, For: Proves([]Finding{r}),
				Args: map[string]Arg{"table": numberArg(num([]Finding{r}, route.FactTable)),
					"pref": numberArg(num([]Finding{r}, route.FactPref))},
			}
			if r.Facts[route.FactRejects] == true {
				c.Fix = dropRejectingRule
			}
			for _, check := range slices.Concat(pathChecks, []string{route.RouteBlocks.ID}) {
				for _, one := range f.Bad(check) {
					if familyOf(one) == familyOf(r) && reasonOf(one) != "refused" && reasonOf(one) != "rejected" {
						c.Covers = append(c.Covers, Cover{Check: check, About: one.Target})
					}
				}
			}
			out = append(out, c)
		}
		return out
	},
}

// dropRejectingRule is for a rule that looks into no table.
var dropRejectingRule = &probe.Fix{
	Says: "Remove the rule from what makes it (a script, a VPN, netplan, NetworkManager), then delete it.",
	Manifest: []string{"ssh {node} ip rule",
		"ssh {node} 'grep -rn -i -e routing-policy -e unreachable -e blackhole -e prohibit /etc/netplan /etc/systemd/network /etc/NetworkManager /etc/network'"},
	OnlyIf: []probe.Conditional{{If: "nothing needs the rule", Manifest: []string{"ssh {node} sudo ip rule del pref {pref}"}}},
	Radius: "without the rule the kernel routes packets from those addresses again, at once",
}

// foreignTunnel is a device of another CNI where Calico's tunnel should be.
var foreignTunnel = &Rule{
	ID: "foreign-tunnel", Layer: LayerRoutes, Title: "another CNI's VXLAN device blocks the creation of Calico's",
	Doc: `The kernel makes no second VXLAN device with the same VNI and UDP port, and none beside one that takes every VNI of a port. A device that an earlier CNI left (flannel.1 with Calico's VNI 4096, cilium_vxlan) or that another one still uses keeps vxlan.calico from being made or from coming up; Felix tries again for ever. Nothing tunnelled comes through, while the nodes ping each other.
Told from a Felix that hangs by the other device, which the kernel shows with its VNI and port.`,
	Fix: probe.Fix{
		Says: "Where the other CNI is gone, delete its device and what makes it again at boot; Felix makes its own within seconds. Else give one of the two another port or VNI.",
		Manifest: []string{"ssh {node} ip -d link show {device}",
			"ssh {node} ls /etc/cni/net.d /run/flannel /etc/systemd/network"},
		OnlyIf: []probe.Conditional{
			{If: "nothing uses {device} any more", Manifest: []string{"ssh {node} sudo ip link del {device}"}},
			{If: "both are used", Manifest: []string{`kubectl patch felixconfigurations.crd.projectcalico.org default --type=merge -p '{"spec":{"vxlanVNI":4097}}'`}},
		},
		Radius: "deleting: this node, and what still goes through that device; another VNI: the tunnel of every node, until all have it",
	},
	RuledOut: []string{link.NodePing.ID, felix.FelixLive.ID},
	Explains: []string{"tunnel-device", "tunnel-peers", "tunnel-filtered", "peer-pods", "route-not-made"},
	Match: func(f Findings) []Case {
		var out []Case
		for _, r := range f.Failed(overlay.OverlayTunnels.ID) {
			if device := r.Facts.Str(overlay.FactForeign); device != "" {
				out = append(out, Case{
					About: device, Family: familyOf(r), Args: map[string]Arg{"device": deviceArg(device)},
					Says: fmt.Sprintf("a device of another CNI keeps %s of {node} from carrying anything: %s", r.Target, r.Saw),
					For:  Proves([]Finding{r}), Covers: overPods(f),
				})
			}
		}
		return out
	},
}

// ownAddresses are addresses that this node has, by what it and the API say.
func ownAddresses(f Findings) []string {
	var out []string
	for _, r := range f.Of(facts.CheckIPRegistered) {
		if nodeOf(r) == "" {
			out = append(out, r.Facts.Str(facts.Internal), r.Facts.Str(facts.Registered))
		}
	}
	for _, check := range []string{route.RouteCanReach.ID, bgp.BGPSession.ID, bgp.BGPPort.ID} {
		for _, r := range f.Of(check) {
			if r.From == "" {
				out = append(out, r.Facts.Str(probe.FactSource))
			}
		}
	}
	return slices.DeleteFunc(out, func(a string) bool { return a == "" })
}

// refusedHere are packets from or to pods that this node itself rejected, and says so by ICMP. A policy
// is meant to, and so may Calico's be that denies.
func refusedHere(f Findings) []Finding {
	own := ownAddresses(f)
	var out []Finding
	for _, check := range []string{pod.PodTCP.ID, pod.PodPing.ID} {
		out = append(out, keep(f.Failed(check), func(r Finding) bool {
			return slices.Contains(own, r.Facts.Str(probe.FactICMPFrom)) && r.Facts.Str(probe.FactPolicy) == ""
		})...)
	}
	return out
}

// firewallRejects is a rule of somebody's that refuses what pods send.
var firewallRejects = &Rule{
	ID: "firewall-rejects", Layer: LayerPaths, Title: "a foreign firewall rule on this node rejects pod traffic",
	Doc: `firewalld, ufw or rules made by hand have a chain of their own for forwarded packets, beside Calico's: a packet has to pass both. One of its rules drops or rejects what Calico has accepted. Rejected packets come back at once, "administratively prohibited" from this node's own address, dropped ones never. The node itself, whose packets are not forwarded, reaches every pod; node ports of other nodes fail as well, for their way back leads through this node, and look like a fault of those.
Told from a network policy, which is named where one holds; from a firewall elsewhere by the address that the rejection comes from.`,
	Fix: probe.Fix{
		Says: "Have that firewall accept the pods' networks, or switch it off on nodes: Calico's documentation asks for that with firewalld.",
		Manifest: []string{
			"ssh {node} 'sudo nft -a list ruleset | grep -n -i -e \"hook forward\" -e reject -e drop | head -40'",
			"ssh {node} 'systemctl is-active firewalld ufw; sudo iptables -S FORWARD | head -20'",
		},
		OnlyIf: []probe.Conditional{
			{If: "it is firewalld, and the hosts are to have no firewall but Calico's",
				Manifest: []string{"ssh {node} sudo systemctl disable --now firewalld"}},
			{If: "it is ufw", Manifest: []string{"ssh {node} sudo ufw default allow routed"}},
		},
		Radius: "reading changes nothing; what is switched off no longer guards this node either",
	},
	RuledOut: []string{link.NodeSysctl.ID, bgp.BGPSession.ID, route.RouteBlocks.ID, link.NodePing.ID},
	Explains: []string{"peer-nodeports", "peer-pods", "tunnel-filtered", "dns-down", "dns-no-upstream",
		"service-path-broken",
		"firewall-forward-drop"},
	Match: func(f Findings) []Case {
		var named []Finding
		var chains []string
		for _, r := range f.Of(firewall.NodeFirewall.ID) {
			if of := listOf(r, firewall.FactRefuses); len(of) > 0 {
				named = append(named, r)
				chains = append(chains, of...)
			}
		}
		slices.Sort(chains)
		chains = slices.Compact(chains)
		rejected := refusedHere(f)
		if len(named) == 0 { // so the kernel itself answers where the next machine does not
			rejected = keep(rejected, func(r Finding) bool { return reasonOf(r) != "host-unreachable" })
		}
		c := Case{}
		switch held := heldPods(f); {
		case len(rejected) > 0:
			c.For = append(Suggests(rejected), Hints(named)...)
			c.Says = "{node} itself rejects what its pods send: " + rejected[0].Saw
		case len(held) > 0 && len(named) > 0:
			c.For = append(Hints(named), Hints(held)...)
			c.Says = "{node} reaches pods and its own pods do not, and a rule that is not Calico's may drop what they send"
		default:
			return nil
		}
		if len(chains) > 0 {
			c.Says += fmt.Sprintf("; %s has a rule that drops or rejects", strings.Join(chains[:min(len(chains), 3)], ", "))
		}
		c.Covers = forwarded(f)
		return []Case{c}
	},
}

// heldPods are questions from pods that got no answer, which the node itself gets. What a policy may
// forbid is none of them.
func heldPods(f Findings) []Finding {
	var out []Finding
	for _, check := range []string{pod.PodTCP.ID, pod.PodPing.ID} {
		out = append(out, keep(f.Failed(check), func(r Finding) bool {
			own, ok := at(f, check, r.Target)
			return r.From != "" && r.Facts.Str(probe.FactPolicy) == "" && ok && own.Status == probe.OK
		})...)
	}
	return out
}

// forwarded are the bad results of packets that this node forwards: of its pods, and of node ports.
func forwarded(f Findings) []Cover {
	var out []Cover
	for _, check := range pathChecks {
		for _, r := range f.Bad(check) {
			if r.From != "" || check == service.ServiceNodePort.ID || strings.Contains(r.Target, " from ") {
				out = append(out, Cover{Check: check, About: r.Target})
			}
		}
	}
	return out
}

// oldNode tells whether a Node that nobody reports for is registered with the address that is this node's InternalIP.
func oldNode(f Findings, peer, address string) bool {
	return slices.ContainsFunc(f.With(facts.CheckIPRegistered, probe.FactReason, facts.ReasonTaken), func(r Finding) bool {
		return r.Facts.Str(probe.FactNode) == peer && r.Facts.Str(facts.Internal) == address &&
			r.Facts.Str(probe.FactNodeState) == probe.NodeSilent
	})
}
