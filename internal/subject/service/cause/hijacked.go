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
	"github.com/calico-probe/calico-probe/internal/subject/service"
	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/probe/kernel"
	"github.com/calico-probe/calico-probe/probe/logs"
)

// serviceHijacked is projectcalico/felix#1868.
func serviceHijacked(f diagnose.Findings) []diagnose.Case {
	byRule := map[string]int{} // by the rule's text or, for rules left behind, by their firewall
	var out []diagnose.Case
	for _, r := range f.Bad(service.ServiceDestination.ID) {
		rule := strings.TrimSpace(r.Facts.Str(probe.FactRule))
		if rule == "" {
			continue
		}
		key := rule
		if r.Facts.Str(service.FactMeans) == service.MeansLeft { // one firewall is one case, whatever rules it has
			family, _, _ := strings.Cut(r.Facts.Str(probe.FactRawTable), " ")
			key = iptablesOf(r.Facts.Str(service.FactWall), family)
		}
		i, known := byRule[key]
		if !known {
			i = len(out)
			byRule[key] = i
			out = append(out, hijack(r))
		}
		weight := diagnose.Strong // the rule may be intended
		if r.Status == probe.Fail {
			weight = diagnose.Proof
		}
		out[i].For = append(out[i].For, diagnose.Clues(weight, []diagnose.Finding{r})...)
		out[i].Covers = append(out[i].Covers, takenFrom(r)...)
	}
	for i, c := range out {
		out[i].For = append(c.For, diagnose.Shows(hijackShows(f, c.For[0].Finding))...)
	}
	return out[:min(len(out), 2)]
}

// apiService is the API server's Service, as in the target of service-destination.
const apiService = "default/kubernetes"

// hijack is a case of serviceHijacked, by the first Service that its rule captures.
func hijack(r diagnose.Finding) diagnose.Case {
	clusterIP, sent, rule := r.Facts.Str(service.FactService), r.Facts.Str(service.FactSentTo), r.Facts.Str(probe.FactRule)
	name, _, _ := strings.Cut(r.Target, " ")
	family, table, _ := strings.Cut(r.Facts.Str(probe.FactRawTable), " ")
	chain, wall, means := r.Facts.Str(probe.FactChain), r.Facts.Str(service.FactWall), r.Facts.Str(service.FactMeans)
	to, _ := netip.ParseAddrPort(sent)
	at, _ := netip.ParseAddrPort(clusterIP)
	c := diagnose.Case{About: clusterIP, Family: diagnose.FamilyOf(r), Args: map[string]diagnose.Arg{
		"table":    diagnose.CheckedArg(family+" "+table, diagnose.IsWord(family) && diagnose.IsWord(table), "FAMILY TABLE"),
		"inchain":  diagnose.CheckedArg(chain, diagnose.IsWord(chain), "CHAIN"),
		"iptable":  diagnose.CheckedArg(table, diagnose.IsWord(table), "TABLE"),
		"family":   diagnose.NumberArg(float64(diagnose.FamilyOf(r))),
		"handle":   diagnose.NumberArg(diagnose.Num([]diagnose.Finding{r}, service.FactHandle)),
		"iptables": diagnose.OwnArg(iptablesOf(wall, family)),
		"sent":     diagnose.AddressArg(to.Addr().String()),
		"service":  diagnose.AddressArg(at.Addr().String()),
	}}
	c.Says = fmt.Sprintf("{node} sends connections for %s (Service %s) to %s, which is not an endpoint of that Service: %s rule %q",
		clusterIP, name, sent, wall, rule)
	switch {
	case means == service.MeansRoute:
		c.Says = fmt.Sprintf("{node} delivers connections for %s (Service %s) to itself, by the route %q", clusterIP, name, rule)
		c.Args["localroute"] = networkArg(rule)
		c.FixName = "local-route"
	case means == kernel.DoesTProxy:
		c.Says = fmt.Sprintf("{node} passes connections for %s (Service %s) to a proxy on %s: %s rule %q",
			clusterIP, name, strings.TrimPrefix(sent, ":"), wall, rule)
		if port, only := strings.CutPrefix(sent, ":"); only {
			c.Says = fmt.Sprintf("{node} passes connections for %s (Service %s) to a proxy on its own port %s: %s rule %q",
				clusterIP, name, port, wall, rule)
		}
		c.FixName = fixOfWall[wall]
	case means == service.MeansLeft:
		c.Says += ", left by an earlier kube-proxy; the present one writes its rules elsewhere"
		c.FixName = "left-by-kube-proxy"
	case kernel.OfHostPort(table, chain):
		c.Says += ", which a hostPort made"
		c.FixName = "host-port"
		if wall == kernel.WallNative {
			c.FixName = "host-port-nft"
		}
	default:
		c.FixName = fixOfWall[wall]
	}
	return c
}

// networkArg returns the network or address of a route, its second word. A node writes that text, so an address with a
// zone (the zone may be any text) is rejected.
func networkArg(route string) diagnose.Arg {
	words := strings.Fields(route)
	if len(words) < 2 {
		return diagnose.CheckedArg("", false, "NETWORK")
	}
	a, err := netip.ParseAddr(words[1])
	return diagnose.CheckedArg(words[1], diagnose.IsBlock(words[1]) || err == nil && a.Zone() == "", "NETWORK")
}

// fixOfWall names the fixes that remove a rule from a firewall, except nftables, for which the cause's own fix applies.
var fixOfWall = map[string]string{kernel.WallLegacy: "legacy-rule", kernel.WallNFT: "iptables-rule"}

// iptablesOf returns the program that shows the rules of one of the two kinds of iptables.
func iptablesOf(wall, family string) string {
	program := "iptables"
	if family == "ip6" {
		program = "ip6tables"
	}
	if wall == kernel.WallLegacy {
		return program + "-legacy"
	}
	return program + "-nft"
}

// takenFrom returns the bad results that follow when a Service's connections go elsewhere.
func takenFrom(r diagnose.Finding) []diagnose.Cover {
	name, _, _ := strings.Cut(r.Target, " ")
	switch name {
	case apiService:
		return slices.Concat(evidence.Serviceless, evidence.CalicoDown,
			diagnose.Covers(logs.CalicoErrors.ID, logs.KubeLog.ID))
	case "DNS":
		return diagnose.Covers(dns.DNSCluster.ID, dns.DNSExternal.ID)
	}
	return []diagnose.Cover{{Check: service.ServiceClusterIP.ID, About: name},
		{Check: service.ServiceNodePort.ID, About: name}}
}

// hijackShows returns the symptoms that on-call sees: calico-node's last log lines, and how the Service answers.
func hijackShows(f diagnose.Findings, r diagnose.Finding) []diagnose.Finding {
	if !strings.HasPrefix(r.Target, apiService+" ") {
		return evidence.ToService(f.Failed(dns.DNSCluster.ID))
	}
	return slices.Concat(evidence.LogLines(f, logs.FaultCertificate),
		evidence.ToService(f.Failed(datastore.DatastoreLatency.ID)))
}
