package cause

import (
	"fmt"
	"slices"
	"strings"

	"github.com/calico-probe/calico-probe/internal/diagnose"
	"github.com/calico-probe/calico-probe/internal/subject/datastore"
	"github.com/calico-probe/calico-probe/internal/subject/dns"
	"github.com/calico-probe/calico-probe/internal/subject/evidence"
	"github.com/calico-probe/calico-probe/internal/subject/felix"
	"github.com/calico-probe/calico-probe/internal/subject/link"
	"github.com/calico-probe/calico-probe/internal/subject/overlay"
	"github.com/calico-probe/calico-probe/internal/subject/route"
	"github.com/calico-probe/calico-probe/internal/subject/service"
	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/probe/facts"
)

// podRouteMissing is a pod of this node without the last step of the way to it.
var podRouteMissing = &diagnose.Rule{
	ID: "pod-route-missing", Layer: diagnose.LayerRoutes, Title: "a pod on this node has no route to it",
	Doc: `The CNI plugin makes a route of one address to each pod, by the pod's cali* interface. Where it is gone, the blackhole route of the node's block takes the pod's packets: nobody reaches the pod, not even its own node, and what the pod asks gets no answer. Services and DNS with a server in that pod fail now and then, here and on every other node. Felix puts the route back when it next looks at all of them, or is started anew; where it goes again, somebody takes it away: NetworkManager or systemd-networkd that manages cali* interfaces, or a script.
Told from a pod that is ill by its interface, which is there; from a broken path by the other pods of this node, which answer.`,
	Fix: probe.Fix{
		Says: "See whether the route comes back within some minutes, and who takes it away; a new calico-node makes it at once.",
		Manifest: []string{
			"ssh {node} ip route show {address}",
			"ssh {node} 'timeout 10 ip monitor route'",
			"ssh {node} 'systemctl is-active NetworkManager systemd-networkd; cat /etc/NetworkManager/conf.d/*.conf'",
		},
		OnlyIf: []probe.Conditional{{If: "the first command still shows no route by a cali* interface", Manifest: []string{evidence.RestartCalico}}},
		Radius: "reading changes nothing; " + evidence.RestartRadius,
	},
	RuledOut: []string{route.RouteBlocks.ID, link.NodePing.ID, service.KubeProxyHealth.ID},
	Explains: []string{"service-path-broken", "peer-nodeports", "peer-pods", "dns-down", "policy-forbids"},
	Match: func(f diagnose.Findings) []diagnose.Case {
		var out []diagnose.Case
		for _, r := range f.Failed(route.RoutePods.ID) {
			pods := slices.Concat(diagnose.ListOf(r, route.FactNoRoute), diagnose.ListOf(r, route.FactWrong))
			if len(pods) == 0 {
				continue
			}
			_, address, _ := strings.Cut(pods[0], " ")
			c := diagnose.Case{
				About: r.Target, Family: diagnose.FamilyOf(r), For: diagnose.Proves([]diagnose.Finding{r}),
				Covers: ofPods(f, diagnose.FamilyOf(r), pods),
				Args:   map[string]diagnose.Arg{"address": diagnose.AddressArg(address)},
				Says:   fmt.Sprintf("packets to %s do not get into the pod: %s", strings.Join(pods, ", "), r.Saw),
			}
			if down := diagnose.ListOf(r, route.FactDown); len(down) > 0 {
				c.Says = fmt.Sprintf("the interface of %s on {node} is down, and its route went with it: %s",
					evidence.CountOf(float64(len(down)), "pod"), r.Saw)
				c.Args["device"], c.Fix = diagnose.DeviceArg(down[0]), podInterfaceUp
			}
			out = append(out, c)
		}
		return out
	},
}

// podInterfaceUp is the fix where the interface is down: Felix makes the route as soon as it is up.
var podInterfaceUp = &probe.Fix{
	Says: "Set {device} up on {node}, and find what set it down.",
	Manifest: []string{
		"ssh {node} ip link show {device}",
		"ssh {node} 'sudo journalctl -b --no-pager | grep -w {device} | tail -20'  # NetworkManager and systemd-networkd log what they do to an interface",
	},
	OnlyIf: []probe.Conditional{{If: "the first command still shows state DOWN",
		Manifest: []string{"ssh {node} sudo ip link set {device} up"}}},
	Radius: "this pod only; Felix makes its route within a second, and the pod keeps running",
}

// ofPods are the bad results about some of this node's pods, those asked from inside them, and
// those of services, which may have a server there.
func ofPods(f diagnose.Findings, family int, pods []string) []diagnose.Cover {
	var out []diagnose.Cover
	services := []string{service.ServiceClusterIP.ID, service.ServiceNodePort.ID, dns.DNSCluster.ID,
		dns.DNSExternal.ID, datastore.DatastoreLatency.ID}
	for _, r := range f.Where(func(r diagnose.Finding) bool {
		return diagnose.IsBad(r.Status) ||
			r.Status == probe.Unknown
	}) {
		inside := r.From != "" && slices.ContainsFunc(pods,
			func(pod string) bool { return strings.HasPrefix(pod, r.From+" ") })
		service := slices.Contains(services, r.Check) && diagnose.ReasonOf(r) != "refused"
		same := diagnose.FamilyOf(r) == 0 || diagnose.FamilyOf(r) == family
		if inside || same && service || slices.Contains(pods, r.Target) {
			out = append(out, diagnose.Cover{Check: r.Check, About: r.Target})
		}
	}
	return out
}

// routeNotMade is a route that is Felix's to make, and missing.
var routeNotMade = &diagnose.Rule{
	ID: "route-not-made", Layer: diagnose.LayerRoutes, Title: "Felix' route to another node's pods is missing",
	Doc: `For pools with VXLAN (and where programClusterRoutes says so for others) it is Felix, and not BIRD, that makes the route to each block of another node: by vxlan.calico through that node's tunnel address, or straight to the node where both are in one subnet. Felix is well and the kernel has no such route: somebody took it away (NetworkManager, systemd-networkd, a script, a person), and Felix puts it back when it looks again, after 90 s at most by default (routeRefreshInterval); or Felix does not know the block, because that node has no tunnel address.
Told from a broken tunnel by the device, which is in order; from BGP, which has no part in it.`,
	Fix: probe.Fix{
		Says: "See whether the route comes back, who takes it away, and whether the other node has a tunnel address; a new calico-node makes all routes at once.",
		Manifest: []string{
			"ssh {node} ip route show {block}",
			"ssh {node} 'timeout 100 ip monitor route'",
			"kubectl get nodes -o custom-columns='NAME:.metadata.name,VXLAN:.metadata.annotations.projectcalico\\.org/IPv4VXLANTunnelAddr,VXLAN6:.metadata.annotations.projectcalico\\.org/IPv6VXLANTunnelAddr'",
		},
		OnlyIf: []probe.Conditional{{If: "the first command still shows no route", Manifest: []string{evidence.RestartCalico}}},
		Radius: "reading changes nothing; " + evidence.RestartRadius,
	},
	RuledOut: []string{overlay.OverlayTunnels.ID, link.NodePing.ID, felix.FelixLive.ID},
	Explains: []string{"peer-pods", "tunnel-filtered", "peer-nodeports"},
	Match: func(f diagnose.Findings) []diagnose.Case {
		var out []diagnose.Case
		for _, r := range f.Failed(route.RouteBlocks.ID) {
			blocks := diagnose.ListOf(r, route.FactByFelix)
			if len(blocks) == 0 || len(f.Bad(felix.FelixLive.ID))+len(f.Bad(felix.FelixReady.ID)) > 0 {
				continue // that Felix makes none is what its own rules explain
			}
			block, _, _ := strings.Cut(blocks[0], " ")
			out = append(out, diagnose.Case{
				About: r.Target, Family: diagnose.FamilyOf(r), Args: map[string]diagnose.Arg{"block": diagnose.BlockArg(block)},
				Says:   fmt.Sprintf("Felix makes the route to %s, and the kernel of {node} has none", strings.Join(blocks, ", ")),
				For:    append(diagnose.Suggests([]diagnose.Finding{r}), diagnose.Hints(diagnose.Good(f, felix.FelixReady.ID))...),
				Covers: evidence.PathFollows(f, diagnose.FamilyOf(r), ""),
			})
		}
		return out
	},
}

// routeMakersClash are two settings that do not complement each other.
var routeMakersClash = &diagnose.Rule{
	ID: "route-makers-clash", Layer: diagnose.LayerRoutes,
	Title: "Felix and BIRD both program the same routes, or neither does",
	Doc: `Who makes the routes to other nodes' pods is set twice: programClusterRoutes of FelixConfiguration and of BGPConfiguration (from v3.32). Set alike they clash: both write the same routes and each takes the other's away, or nobody writes any. v3.33 has other defaults, Felix for pools with IPIP and BIRD for those without encapsulation, so a value that one side was given before the upgrade may clash after it.
Told from a route that somebody else takes away by the settings.`,
	Fix: probe.Fix{
		Says: "Set the two so that exactly one makes the routes of each pool; without either setting the defaults do.",
		Manifest: []string{
			"kubectl get felixconfigurations.crd.projectcalico.org default -o jsonpath='{.spec.programClusterRoutes}'",
			"kubectl get bgpconfigurations.crd.projectcalico.org default -o jsonpath='{.spec.programClusterRoutes}'",
		},
		Operator: []string{
			"kubectl get installation default -o jsonpath='{.spec.calicoNetwork.clusterRoutingMode}'   # where it is set, the operator writes both",
			"kubectl get felixconfigurations.crd.projectcalico.org default -o jsonpath='{.spec.programClusterRoutes}'",
			"kubectl get bgpconfigurations.crd.projectcalico.org default -o jsonpath='{.spec.programClusterRoutes}'",
		},
		Radius: "reading changes nothing; a change of either moves the routes of all nodes, within seconds",
	},
	Explains: []string{"route-not-made", "route-not-in-kernel", "peer-pods"},
	Match: func(f diagnose.Findings) []diagnose.Case {
		odd := f.Bad(facts.CheckRouteMakers)
		if len(odd) == 0 || odd[0].Facts.Str(facts.Makers) == "" {
			return nil
		}
		c := diagnose.Case{Says: odd[0].Saw, For: diagnose.Suggests(odd)}
		without := func(r diagnose.Finding) bool { return len(diagnose.ListOf(r, route.FactNoRoute)) > 0 }
		missing := diagnose.Keep(f.Failed(route.RouteBlocks.ID), without)
		if odd[0].Facts.Str(facts.Makers) == probe.MakersNone && len(missing) > 0 {
			c.For = append(c.For, diagnose.Hints(missing)...)
			c.Covers = evidence.PathFollows(f, 0, "")
		}
		return []diagnose.Case{c}
	},
}
