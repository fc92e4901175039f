package diagnose

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/calico-probe/calico-probe/internal/subject/bgp"
	"github.com/calico-probe/calico-probe/internal/subject/datastore"
	"github.com/calico-probe/calico-probe/internal/subject/dns"
	"github.com/calico-probe/calico-probe/internal/subject/firewall"
	"github.com/calico-probe/calico-probe/internal/subject/link"
	"github.com/calico-probe/calico-probe/internal/subject/pod"
	"github.com/calico-probe/calico-probe/internal/subject/route"
	"github.com/calico-probe/calico-probe/internal/subject/service"
	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/probe/facts"
)

// lostPaths are the symptoms of packets that the kernel of this node loses.
var lostPaths = []string{"peer-down", "peer-pods", "peer-nodeports", "node-unreachable", "bgp-filtered", "bgp-waits",
	"tunnel-filtered", "tunnel-peers", "service-path-broken", "dns-down", "dns-no-upstream"}

// What goes over the network, by whose packets it is.
var (
	podPaths     = []string{pod.PodPing.ID, pod.PodTCP.ID}
	servicePaths = []string{service.ServiceClusterIP.ID, service.ServiceNodePort.ID, dns.DNSCluster.ID}
	nodePaths    = []string{link.NodePing.ID, bgp.BGPSession.ID}
	apiPaths     = []string{datastore.DatastoreLatency.ID}
	allPaths     = slices.Concat(podPaths, servicePaths, nodePaths, apiPaths)
)

// badPaths are the bad answers of some checks, of both families or one.
func badPaths(f Findings, family int, of []string) []Finding {
	var out []Finding
	for _, check := range of {
		out = append(out, keep(f.Bad(check), func(r Finding) bool {
			return family == 0 || familyOf(r) == 0 || familyOf(r) == family
		})...)
	}
	return out
}

// seenOn weighs what was read on the node: as proof where packets do get lost, else as what will.
func seenOn(r Finding, lost []Finding) []Clue {
	if len(lost) == 0 {
		return Suggests([]Finding{r})
	}
	return append(Proves([]Finding{r}), Shows(lost[:1])...)
}

// podInterfaceSetting is projectcalico/calico#4186.
var podInterfaceSetting = &Rule{
	ID: "pod-interface-setting", Layer: LayerKernel, Title: "a sysctl of the pods' interfaces blocks their traffic",
	Doc: `Felix sets each pod's interface (cali*) when the pod comes: proxy_arp, by which the node answers ARP for the pods' gateway 169.254.1.1 that nobody has, and forwarding. It does not look again. A file in sysctl.d ("net.ipv4.conf.*.proxy_arp = 0", hardening roles, sysctl --system at an update) takes them back for all interfaces that are there: pods lose their gateway as soon as their ARP entry expires, say "host unreachable" from their own address, and new pods are well until the next time. forwarding = 0 of the node's own interface or a tunnel loses what comes in by it for pods.
Told from forwarding that is off as a whole, and from policy, by the setting itself.`,
	Fix: probe.Fix{
		Says: "Set it again, and take it out of what sets it; a restart of calico-node sets all interfaces of pods too.",
		Manifest: []string{
			"ssh {node} 'grep -H . /proc/sys/net/ipv[46]/conf/*/{setting}'",
			"ssh {node} sudo grep -rn {setting} /etc/sysctl.conf /etc/sysctl.d /run/sysctl.d /usr/lib/sysctl.d",
			"ssh {node} sudo sysctl -w {sysctl}={wanted}  # each interface that has it wrong",
		},
		OnlyIf: []probe.Conditional{{If: "they are the interfaces of pods (cali*): for all at once", Manifest: []string{restartCalico}}},
		Radius: "this node only, at once; a restart of calico-node leaves running pods their routes and policy",
	},
	RuledOut: []string{route.RoutePods.ID, firewall.NodeFirewall.ID, link.NodePing.ID},
	Explains: append([]string{"policy-forbids"}, lostPaths...),
	Match: func(f Findings) []Case {
		var out []Case
		for _, r := range f.Failed(pod.PodGateway.ID) {
			names := listOf(r, pod.FactWrongOn)
			name := strings.ReplaceAll(r.Facts.Str(probe.FactSysctl), "/", ".")
			wanted, _ := r.Facts.Num(pod.FactWanted)
			if len(names) == 0 || name == "" {
				continue
			}
			out = append(out, Case{
				About: r.Target, Family: familyOf(r),
				Says: fmt.Sprintf("%s is %.0f on {node}: %s", name, 1-wanted, r.Saw),
				Args: map[string]Arg{"sysctl": sysctlArg(r.Facts.Str(probe.FactSysctl)),
					"setting": sysctlArg(r.Facts.Str(pod.FactSetting)),
					"wanted":  own(fmt.Sprintf("%.0f", wanted))},
				For: seenOn(r, badPaths(f, familyOf(r), slices.Concat(podPaths, servicePaths))),
				Covers: Covers(pod.PodGateway.ID, firewall.PacketDrops.ID, pod.PodPing.ID, pod.PodTCP.ID, pod.PodMTU.ID,
					service.ServiceClusterIP.ID,
					service.ServiceNodePort.ID, dns.DNSCluster.ID, dns.DNSExternal.ID, facts.CheckPodsStart),
			})
		}
		return out
	},
}

// routeDrops is fail2ban/fail2ban#104 and its like.
var routeDrops = &Rule{
	ID: "route-drops", Layer: LayerKernel,
	Title: "a foreign route or routing rule drops packets for nodes, pods, Services or the API server",
	Doc: `A route of the type blackhole, unreachable or prohibit drops what it matches, before any firewall. Calico has such routes only for the blocks of the node itself. Others make them for single addresses or whole ranges: fail2ban and other bans (an address of another node that failed to log in too often), VPN clients that keep traffic from leaking, a leftover of maintenance, systemd-networkd's Type=blackhole. BGP stays up for a while, for its connection has its route still, or goes down with the address.
A host route that leads another node's address to a gateway or an interface of its own loses its packets in the same way.
A route of the type local in table local (ip route show table local) makes the node take packets for its own: over the range of its pods, no pod gets any. The kernel makes these routes for the node's addresses (proto kernel). Guest agents of clouds make more of them for alias ranges: GCE's google-guest-agent with proto 66.
Told from a node that is down, and from a blackhole for a block, by the route itself, which the kernel names.`,
	Fix: probe.Fix{
		Says: "See who made the route, and take it away there; then here.",
		Manifest: []string{
			"ssh {node} 'ip route show table all | grep -e blackhole -e unreachable -e prohibit -e {match}'",
			"ssh {node} 'sudo fail2ban-client status; grep -rn {address} /etc/systemd/network /etc/network /etc/sysconfig/network-scripts'",
			"ssh {node} 'grep -rn -A4 IpForwarding /etc/default/instance_configs.cfg*'  # GCE: ip_aliases = false stops its routes of proto 66",
			"ssh {node} sudo ip route del {route}  # it is made again where a service makes it",
		},
		Radius: "this node only, at once; what was kept from passing by it passes again",
	},
	RuledOut: []string{link.NodeUplink.ID, firewall.NodeFirewall.ID},
	Explains: append([]string{"kubelet-cut-off", "route-swallowed", "route-elsewhere", "route-not-in-kernel",
		"route-not-made", "api-cut-off", "typha-unreachable", "felix-stuck", "bird-unfed", "neighbour-wrong"}, lostPaths...),
	Match: func(f Findings) []Case {
		var out []Case
		for _, r := range f.Of(route.RouteSpecial.ID) {
			if c, is := dropsBy(f, r); is {
				out = append(out, c)
			}
			if rule := r.Facts.Str(probe.FactRule); rule != "" {
				out = append(out, rejectedBy(f, r, rule))
			}
		}
		return out
	},
}

// dropsBy is the case of one route; false where it is none.
func dropsBy(f Findings, r Finding) (Case, bool) {
	text, kind := r.Facts.Str(route.FactRoute), r.Facts.Str(route.FactRouteType)
	if text == "" {
		return Case{}, false
	}
	match := r.Facts.Str(route.FactMatch)
	address, _, _ := strings.Cut(match, "/")
	hits := strings.Join(listOf(r, route.FactMeant), ", ")
	lost := lostBy(f, r)
	lost = append(lost, keep(badPaths(f, familyOf(r), allPaths), func(p Finding) bool { return takes(r, p) })...)
	peer := nodeOf(r)
	if peer == f.Node { // its own pods
		peer = ""
	}
	c := Case{
		About: r.Target, Peer: peer, Family: familyOf(r),
		Says: fmt.Sprintf("the route %q on {node}, made by %s, drops what is for %s", text, r.Facts.Str(route.FactRouteProto), hits),
		Args: map[string]Arg{"match": blockArg(match), "address": addressArg(address), "route": routeArg(kind, typedRoute(r), match)},
		For:  seenOn(r, lost),
		Covers: append(pathFollows(f, familyOf(r), peer), Covers(route.RouteSpecial.ID, route.RouteCanReach.ID,
			route.RouteBlocks.ID)...),
	}
	if kind == "local" {
		c.Says = fmt.Sprintf("the route %q on {node}, made by protocol %s, delivers to the node itself what is for %s", text,
			r.Facts.Str(route.FactRouteProto), hits)
		for _, d := range keep(f.Of(firewall.PacketDrops.ID), func(d Finding) bool { return sourceTaken(f, d) }) {
			c.For = append(c.For, Shows([]Finding{d})...)
			c.Covers = append(c.Covers, Cover{Check: d.Check, About: d.Target})
		}
	}
	towards := listOf(r, route.FactTowards)
	if slices.Contains(towards, "api") || slices.Contains(towards, "service") {
		c.Covers = append(c.Covers, Covers(datastore.DatastoreLatency.ID, service.ServiceClusterIP.ID, dns.DNSCluster.ID,
			dns.DNSExternal.ID)...)
	}
	if slices.Contains(towards, "gateway") || slices.Contains(towards, "pod") {
		c.Covers = append(c.Covers, Covers(pod.PodPing.ID, pod.PodTCP.ID, pod.PodMTU.ID)...)
	}
	if kind == "" {
		astray := keep(f.Failed(link.NodePing.ID), func(p Finding) bool { return p.From == "" && nodeOf(p) == nodeOf(r) })
		if len(astray) == 0 {
			return Case{}, false
		}
		c.Says = fmt.Sprintf("the route %q on {node}, made by %s, leads past the link to %s, and nobody answers there", text, r.Facts.Str(route.FactRouteProto), hits)
		c.For = append(Suggests([]Finding{r}), Suggests(astray)...)
	}
	return c, true
}

// typedRoute is a route as "ip route" takes it.
func typedRoute(r Finding) string {
	typed := strings.TrimSpace(r.Facts.Str(route.FactRouteType) + " " + r.Facts.Str(route.FactMatch))
	if table, ok := r.Facts.Num(route.FactTable); ok && table > 0 && table != 254 {
		typed += fmt.Sprintf(" table %.0f", table)
	}
	return typed
}

// rejectedBy is the case of a routing rule that drops packets itself.
func rejectedBy(f Findings, r Finding, rule string) Case {
	hits, lost := listOf(r, route.FactMeant), lostBy(f, r)
	c := Case{
		About: r.Target, Family: familyOf(r),
		Says:   fmt.Sprintf("the routing rule %q on {node} drops what is for %s", rule, strings.Join(hits, ", ")),
		Args:   map[string]Arg{"pref": numberArg(num([]Finding{r}, route.FactPref))},
		For:    seenOn(r, lost),
		Covers: append(pathFollows(f, familyOf(r), ""), Covers(route.RouteSpecial.ID, route.RouteCanReach.ID)...),
		Fix: &probe.Fix{
			Says: "Find what makes the rule (a VPN's kill switch, policy routing, a script) and stop it. Then delete the rule.",
			Manifest: []string{
				"ssh {node} ip rule",
				"ssh {node} 'sudo grep -rn -e prohibit -e unreachable -e blackhole -e RoutingPolicyRule /etc/systemd/network /etc/netplan /etc/network /etc/wireguard'",
				"ssh {node} sudo ip rule del pref {pref}",
			},
			Radius: "this node only, at once; what the rule blocks passes again",
		},
	}
	if slices.Contains(listOf(r, route.FactTowards), "api") {
		c.Covers = append(append(c.Covers, kubeletGone...), Covers(datastore.DatastoreLatency.ID, service.ServiceClusterIP.ID,
			probe.CheckPlaced)...)
	}
	return c
}

// lostBy are the bad answers of packets that a route drops, by the kinds of what it matches.
func lostBy(f Findings, r Finding) []Finding {
	towards := listOf(r, route.FactTowards)
	var of []string
	for kind, paths := range map[string][]string{"node": slices.Concat(nodePaths, podPaths), "pod": podPaths,
		"gateway": slices.Concat(podPaths, servicePaths), "service": servicePaths,
		"api": slices.Concat(apiPaths, servicePaths)} {
		if slices.Contains(towards, kind) {
			of = append(of, paths...)
		}
	}
	slices.Sort(of)
	node := nodeOf(r)
	return keep(badPaths(f, familyOf(r), slices.Compact(of)), func(p Finding) bool {
		return node == "" || nodeOf(p) == "" || nodeOf(p) == node // the way to another node is another route's
	})
}

// routeArg is a route to be deleted: its type, which has to be one that drops, its range and its table.
func routeArg(kind, route, match string) Arg {
	known := slices.Contains([]string{"", "blackhole", "unreachable", "prohibit", "local"}, kind)
	if address, err := netip.ParsePrefix(match); kind == "local" && err == nil && address.IsSingleIP() {
		known = false // it may be one of the node's own addresses, which the node needs
	}
	return checked(route, known && isBlock(match), "ROUTE")
}

// ipsecTakes is projectcalico/calico#4744.
var ipsecTakes = &Rule{
	ID: "ipsec-policy", Layer: LayerKernel, Title: "an IPsec policy on this node captures Calico's traffic",
	Doc: `An IPsec daemon (strongSwan, Libreswan, the agent of a cloud's VPN) gives the kernel policies by ranges of addresses. One whose ranges are those of pods, Services or nodes wants Calico's packets encrypted, for an end that knows nothing of them; with no security association for it the kernel drops them, with action block it always does. "ip route get" and the firewall's counters look well, tcpdump on the uplink shows nothing. The policies outlive a daemon that was killed.
Told from a firewall or a route by the policy, which the kernel shows with its selector.`,
	Fix: probe.Fix{
		Says: "See whose the policy is, and give that connection other ranges; with no daemon left, delete the policy.",
		Manifest: []string{
			"ssh {node} 'sudo ip xfrm policy; sudo ip -s xfrm state'",
			"ssh {node} 'pgrep -a -e charon -e pluto -e starter; sudo grep -rn -e leftsubnet -e rightsubnet -e local_ts -e remote_ts /etc/ipsec.conf /etc/ipsec.d /etc/swanctl'",
			"kubectl get ippools.crd.projectcalico.org -o custom-columns=NAME:.metadata.name,CIDR:.spec.cidr  # ranges that no VPN may have",
		},
		OnlyIf: []probe.Conditional{{If: "nothing makes it again and no VPN of this node is used",
			Manifest: []string{"ssh {node} sudo ip xfrm policy delete src {from} dst {to} dir {direction}"}}},
		Radius: "reading changes nothing; without the policy packets of that range leave unencrypted, by the routes",
	},
	RuledOut: []string{route.RouteBlocks.ID, firewall.NodeFirewall.ID, route.RouteCanReach.ID},
	Explains: append([]string{"api-cut-off", "typha-unreachable", "policy-forbids"}, lostPaths...),
	Match: func(f Findings) []Case {
		bad := f.Bad(route.XFRMPolicies.ID)
		if len(bad) == 0 {
			return nil
		}
		r := bad[0]
		for _, other := range bad {
			if other.Status == probe.Fail {
				r = other
				break
			}
		}
		lost := badPaths(f, familyOf(r), allPaths)
		if len(lost) == 0 && r.Status != probe.Fail {
			return nil
		}
		direction := r.Facts.Str(route.FactDirection)
		if !slices.Contains([]string{"in", "out", "fwd"}, direction) {
			return nil
		}
		return []Case{{
			Family: familyOf(r),
			Says: fmt.Sprintf("the IPsec policy %s (dir %s) on {node}, which is not Calico's, takes its packets: %s",
				r.Facts.Str(route.FactSelector), direction, r.Saw),
			Args: map[string]Arg{"from": blockArg(r.Facts.Str(route.FactFrom)), "to": blockArg(r.Facts.Str(route.FactTo)),
				"direction": own(direction)},
			For: append(seenOn(r, lost), Shows(slices.DeleteFunc(slices.Clone(bad),
				func(o Finding) bool { return o.Target == r.Target }))...),
			Covers: append(pathFollows(f, familyOf(r), ""), Covers(route.XFRMPolicies.ID,
				service.ServiceClusterIP.ID, dns.DNSCluster.ID,
				dns.DNSExternal.ID, pod.PodPing.ID, pod.PodTCP.ID, pod.PodMTU.ID)...),
		}}
	},
}

// untrackedService is kubernetes/kubernetes#98758.
var untrackedService = &Rule{
	ID: "untracked-rule", Layer: LayerKernel, Title: "a NOTRACK rule stops NAT for a Service",
	Doc: `A Service's address is translated to a pod's once for each connection that the kernel tracks. A rule with NOTRACK (iptables' table raw, "notrack" of nftables) that matches the Service's address and port keeps its packets out of that: they leave with the Service's address and are lost, while the pods behind it answer, kube-proxy runs and its rules are there. NodeLocal DNSCache makes such rules for the DNS Service, where it listens on that address itself; they stay when it is deleted, crashes or loses its interface nodelocaldns. Others are tuning against a full table of connections.
Told from rules of kube-proxy that are missing or stale by the rule itself, which stands before them.`,
	Fix: probe.Fix{
		Says: "Delete the rule, and what makes it; where NodeLocal DNSCache is used, have it run on this node again.",
		Manifest: []string{
			"ssh {node} 'sudo iptables-save -t raw; sudo iptables-legacy-save -t raw; sudo nft list ruleset | grep -n -B5 notrack'",
			"kubectl -n kube-system get pods -o wide --field-selector spec.nodeName={node} | grep -i node-local",
			"ssh {node} ip -br addr show nodelocaldns",
		},
		OnlyIf: []probe.Conditional{{If: "nobody listens on that address on this node, and nothing makes the rule again",
			Manifest: []string{"ssh {node} 'sudo iptables -t raw -S | grep -n -i -e NOTRACK -e notrack'  # then the same line with -D in place of -A"}}},
		Radius: "this node only; packets that match are tracked from then on, which costs an entry for each connection",
	},
	RuledOut: []string{service.KubeProxyHealth.ID, firewall.NodeConntrack.ID},
	Explains: append([]string{"kube-proxy-stuck", "policy-forbids", "kube-proxy-rules-lost"}, lostPaths...),
	Match: func(f Findings) []Case {
		var out []Case
		for _, r := range f.Bad(route.Untracked.ID) {
			rule := r.Facts.Str(probe.FactRule)
			if rule == "" {
				continue
			}
			lost := slices.Concat(f.Bad(dns.DNSCluster.ID), f.Bad(service.ServiceClusterIP.ID),
				f.Bad(datastore.DatastoreLatency.ID))
			if r.Status != probe.Fail {
				lost = nil
			}
			if r.Status != probe.Fail && len(badPaths(f, 0, allPaths)) == 0 {
				continue
			}
			out = append(out, Case{
				Says: fmt.Sprintf("the firewall rule %q on {node} keeps packets from being tracked: %s", rule, r.Saw),
				For:  seenOn(r, lost),
				Covers: Covers(route.Untracked.ID, firewall.PacketDrops.ID, dns.DNSCluster.ID, dns.DNSExternal.ID,
					service.ServiceClusterIP.ID, service.ServiceNodePort.ID, datastore.DatastoreLatency.ID, pod.PodPing.ID,
					pod.PodTCP.ID, pod.PodMTU.ID),
			})
		}
		return out[:min(len(out), 1)]
	},
}
