package cause

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/calico-probe/calico-probe/internal/diagnose"
	"github.com/calico-probe/calico-probe/internal/subject/datastore"
	"github.com/calico-probe/calico-probe/internal/subject/dns"
	"github.com/calico-probe/calico-probe/internal/subject/evidence"
	"github.com/calico-probe/calico-probe/internal/subject/firewall"
	"github.com/calico-probe/calico-probe/internal/subject/link"
	"github.com/calico-probe/calico-probe/internal/subject/pod"
	"github.com/calico-probe/calico-probe/internal/subject/route"
	"github.com/calico-probe/calico-probe/internal/subject/service"
	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/probe/facts"
)

// seenOn weighs a result read on the node: proof if packets are being lost, otherwise a warning of a future loss.
func seenOn(r diagnose.Finding, lost []diagnose.Finding) []diagnose.Clue {
	if len(lost) == 0 {
		return diagnose.Suggests([]diagnose.Finding{r})
	}
	return append(diagnose.Proves([]diagnose.Finding{r}), diagnose.Shows(lost[:1])...)
}

// podInterfaceSetting is projectcalico/calico#4186.
func podInterfaceSetting(f diagnose.Findings) []diagnose.Case {
	var out []diagnose.Case
	for _, r := range f.Failed(pod.PodGateway.ID) {
		names := diagnose.ListOf(r, pod.FactWrongOn)
		name := strings.ReplaceAll(r.Facts.Str(probe.FactSysctl), "/", ".")
		wanted, _ := r.Facts.Num(pod.FactWanted)
		if len(names) == 0 || name == "" {
			continue
		}
		out = append(out, diagnose.Case{
			About: r.Target, Family: diagnose.FamilyOf(r),
			Says: fmt.Sprintf("%s is %.0f on {node}: %s", name, 1-wanted, r.Saw),
			Args: map[string]diagnose.Arg{"sysctl": diagnose.SysctlArg(r.Facts.Str(probe.FactSysctl)),
				"setting": diagnose.SysctlArg(r.Facts.Str(pod.FactSetting)),
				"wanted":  diagnose.OwnArg(fmt.Sprintf("%.0f", wanted))},
			For: seenOn(r, evidence.BadPaths(f, diagnose.FamilyOf(r), slices.Concat(evidence.PodPaths, evidence.ServicePaths))),
			Covers: diagnose.Covers(pod.PodGateway.ID, firewall.PacketDrops.ID, pod.PodPing.ID, pod.PodTCP.ID, pod.PodMTU.ID,
				service.ServiceClusterIP.ID,
				service.ServiceNodePort.ID, dns.DNSCluster.ID, dns.DNSExternal.ID, facts.CheckPodsStart),
		})
	}
	return out
}

// routeDrops is fail2ban/fail2ban#104 and similar faults.
func routeDrops(f diagnose.Findings) []diagnose.Case {
	var out []diagnose.Case
	for _, r := range f.Of(route.RouteSpecial.ID) {
		if c, is := dropsBy(f, r); is {
			out = append(out, c)
		}
		if rule := r.Facts.Str(probe.FactRule); rule != "" {
			out = append(out, rejectedBy(f, r, rule))
		}
	}
	return out
}

// dropsBy returns the case of one route, or false if the route is not at fault.
func dropsBy(f diagnose.Findings, r diagnose.Finding) (diagnose.Case, bool) {
	text, kind := r.Facts.Str(route.FactRoute), r.Facts.Str(route.FactRouteType)
	if text == "" {
		return diagnose.Case{}, false
	}
	match := r.Facts.Str(route.FactMatch)
	address, _, _ := strings.Cut(match, "/")
	hits := strings.Join(diagnose.ListOf(r, route.FactMeant), ", ")
	lost := lostBy(f, r)
	lost = append(lost, diagnose.Keep(evidence.BadPaths(f, diagnose.FamilyOf(r), evidence.AllPaths),
		func(p diagnose.Finding) bool { return evidence.Takes(r, p) })...)
	peer := diagnose.NodeOf(r)
	if peer == f.Node { // its own pods
		peer = ""
	}
	c := diagnose.Case{
		About: r.Target, Peer: peer, Family: diagnose.FamilyOf(r),
		Says: fmt.Sprintf("the route %q on {node}, made by %s, drops packets for %s", text, makerOf(r), hits),
		Args: map[string]diagnose.Arg{"match": diagnose.BlockArg(match), "address": diagnose.AddressArg(address),
			"route": routeArg(kind, typedRoute(r), match)},
		For: seenOn(r, lost),
		Covers: append(evidence.PathFollows(f, diagnose.FamilyOf(r), peer),
			diagnose.Covers(route.RouteSpecial.ID, route.RouteCanReach.ID,
				route.RouteBlocks.ID)...),
	}
	if kind == "local" {
		c.Says = fmt.Sprintf("the route %q on {node}, made by %s, delivers to the node itself the packets for %s", text,
			makerOf(r), hits)
		for _, d := range diagnose.Keep(f.Of(firewall.PacketDrops.ID),
			func(d diagnose.Finding) bool { return evidence.SourceTaken(f, d) }) {
			c.For = append(c.For, diagnose.Shows([]diagnose.Finding{d})...)
			c.Covers = append(c.Covers, diagnose.Cover{Check: d.Check, About: d.Target})
		}
	}
	towards := diagnose.ListOf(r, route.FactTowards)
	if slices.Contains(towards, "api") || slices.Contains(towards, "service") {
		c.Covers = append(c.Covers, diagnose.Covers(datastore.DatastoreLatency.ID, service.ServiceClusterIP.ID,
			dns.DNSCluster.ID,
			dns.DNSExternal.ID)...)
	}
	if slices.Contains(towards, "gateway") || slices.Contains(towards, "pod") {
		c.Covers = append(c.Covers, diagnose.Covers(pod.PodPing.ID, pod.PodTCP.ID, pod.PodMTU.ID)...)
	}
	if kind == "" {
		astray := diagnose.Keep(f.Failed(link.NodePing.ID), func(p diagnose.Finding) bool {
			return p.From == "" && !evidence.Arrived(p) &&
				diagnose.NodeOf(p) == diagnose.NodeOf(r)
		})
		if len(astray) == 0 {
			return diagnose.Case{}, false
		}
		c.Says = fmt.Sprintf("the route %q on {node}, made by %s, bypasses the link to %s, and gets no answer", text, makerOf(r), hits)
		c.For = append(diagnose.Suggests([]diagnose.Finding{r}), diagnose.Suggests(astray)...)
	}
	return c, true
}

// makerOf returns the route's origin, if its protocol shows it: "ip route" without a protocol writes boot.
func makerOf(r diagnose.Finding) string {
	if proto := r.Facts.Str(route.FactRouteProto); proto != "boot" {
		return "protocol " + proto
	}
	return "hand or a script (protocol boot)"
}

// typedRoute returns a route in the syntax of "ip route".
func typedRoute(r diagnose.Finding) string {
	typed := strings.TrimSpace(r.Facts.Str(route.FactRouteType) + " " + r.Facts.Str(route.FactMatch))
	if table, ok := r.Facts.Num(route.FactTable); ok && table > 0 && table != 254 {
		typed += fmt.Sprintf(" table %.0f", table)
	}
	return typed
}

// rejectedBy returns the case of a routing rule that drops packets.
func rejectedBy(f diagnose.Findings, r diagnose.Finding, rule string) diagnose.Case {
	hits, lost := diagnose.ListOf(r, route.FactMeant), lostBy(f, r)
	c := diagnose.Case{
		About: r.Target, Family: diagnose.FamilyOf(r),
		Says: fmt.Sprintf("the routing rule %q on {node} drops packets for %s", rule, strings.Join(hits, ", ")),
		Args: map[string]diagnose.Arg{"pref": diagnose.NumberArg(diagnose.Num([]diagnose.Finding{r}, route.FactPref))},
		For:  seenOn(r, lost),
		Covers: append(evidence.PathFollows(f, diagnose.FamilyOf(r), ""),
			diagnose.Covers(route.RouteSpecial.ID, route.RouteCanReach.ID)...),
		FixName: "of-rule",
	}
	if slices.Contains(diagnose.ListOf(r, route.FactTowards), "api") {
		c.Covers = append(append(c.Covers, evidence.KubeletGone...),
			diagnose.Covers(datastore.DatastoreLatency.ID, service.ServiceClusterIP.ID,
				probe.CheckPlaced)...)
	}
	return c
}

// lostBy returns the bad results of packets that a route drops, by the kinds of its targets.
func lostBy(f diagnose.Findings, r diagnose.Finding) []diagnose.Finding {
	towards := diagnose.ListOf(r, route.FactTowards)
	var of []string
	for kind, paths := range map[string][]string{"node": slices.Concat(evidence.NodePaths, evidence.PodPaths),
		"pod":     evidence.PodPaths,
		"gateway": slices.Concat(evidence.PodPaths, evidence.ServicePaths), "service": evidence.ServicePaths,
		"api": slices.Concat(evidence.ApiPaths, evidence.ServicePaths)} {
		if slices.Contains(towards, kind) {
			of = append(of, paths...)
		}
	}
	slices.Sort(of)
	node := diagnose.NodeOf(r)
	return diagnose.Keep(evidence.BadPaths(f, diagnose.FamilyOf(r), slices.Compact(of)), func(p diagnose.Finding) bool {
		return node == "" || diagnose.NodeOf(p) == "" ||
			diagnose.NodeOf(p) == node // another node has another route
	})
}

// routeArg returns a route to delete: its type (which must drop packets), its range and its table.
func routeArg(kind, route, match string) diagnose.Arg {
	known := slices.Contains([]string{"", "blackhole", "unreachable", "prohibit", "local"}, kind)
	if address, err := netip.ParsePrefix(match); kind == "local" && err == nil && address.IsSingleIP() {
		known = false // it may be an address of the node, which the node needs
	}
	return diagnose.CheckedArg(route, known && diagnose.IsBlock(match), "ROUTE")
}
