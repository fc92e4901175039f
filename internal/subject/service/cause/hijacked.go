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
	byRule := map[string]int{}
	var out []diagnose.Case
	for _, r := range f.Bad(service.ServiceDestination.ID) {
		rule := strings.TrimSpace(r.Facts.Str(probe.FactRule))
		if rule == "" {
			continue
		}
		i, known := byRule[rule]
		if !known {
			i = len(out)
			byRule[rule] = i
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

// apiService is the service of the API server, as service-destination has it in its target.
const apiService = "default/kubernetes"

// hijack is a case of serviceHijacked, by the first service that its rule takes.
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
		c.Says = fmt.Sprintf("{node} keeps connections for %s (Service %s) to itself, by the route %q", clusterIP, name, rule)
		c.Args["localroute"] = networkArg(rule)
		c.Fix = &removeLocalRoute
	case means == kernel.DoesTProxy:
		c.Says = fmt.Sprintf("{node} passes connections for %s (Service %s) to a proxy on %s: %s rule %q",
			clusterIP, name, strings.TrimPrefix(sent, ":"), wall, rule)
		if port, only := strings.CutPrefix(sent, ":"); only {
			c.Says = fmt.Sprintf("{node} passes connections for %s (Service %s) to a proxy on its own port %s: %s rule %q",
				clusterIP, name, port, wall, rule)
		}
		c.Fix = fixOfWall(wall)
	case kernel.OfHostPort(table, chain):
		c.Says += ", which a hostPort made"
		c.Fix = &removeHostPort
		if wall == kernel.WallNative {
			c.Fix = &removeHostPortNFT
		}
	default:
		c.Fix = fixOfWall(wall)
	}
	return c
}

// networkArg is the network or address of a route, its second word. A node writes that text: an address with a zone,
// which may be any text, is none.
func networkArg(route string) diagnose.Arg {
	words := strings.Fields(route)
	if len(words) < 2 {
		return diagnose.CheckedArg("", false, "NETWORK")
	}
	a, err := netip.ParseAddr(words[1])
	return diagnose.CheckedArg(words[1], diagnose.IsBlock(words[1]) || err == nil && a.Zone() == "", "NETWORK")
}

// fixOfWall removes a rule from a firewall.
func fixOfWall(wall string) *probe.Fix {
	return map[string]*probe.Fix{kernel.WallLegacy: &removeLegacyRule, kernel.WallNFT: &removeIptablesRule,
		kernel.WallNative: &removeNFTRule}[wall]
}

// iptablesOf is the program that shows the rules of one of the two kinds of iptables.
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

// takenFrom are the bad results that follow where a service's connections go elsewhere.
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

// hijackShows is what on-call sees of it: the last words of calico-node, and how the service answers.
func hijackShows(f diagnose.Findings, r diagnose.Finding) []diagnose.Finding {
	if !strings.HasPrefix(r.Target, apiService+" ") {
		return evidence.ToService(f.Failed(dns.DNSCluster.ID))
	}
	return slices.Concat(evidence.LogLines(f, logs.SaysCertificate),
		evidence.ToService(f.Failed(datastore.DatastoreLatency.ID)))
}

// Who adds such a rule leaves its destination in a file.
const whoDiverts = "ssh {node} 'sudo grep -rlwF -e {sent} /etc/nftables* /etc/iptables* /etc/sysconfig /etc/cron* /etc/systemd/system /usr/local /opt'"

// divertRadius is what a rule touches that is taken away.
const divertRadius = "reading changes nothing; without the rule new connections from this node go to the Service's endpoints at once, and open ones stay"

const unneeded = "nothing needs that rule"

// The fixes by where the rule is.
var (
	removeNFTRule = probe.Fix{
		Says:     "Remove rule {handle} of chain {inchain} in nftables table {table}, and configure the program that adds it to leave {service} alone.",
		Manifest: []string{"ssh {node} sudo nft -a list table {table}  # its other chains may have the same rule", whoDiverts},
		OnlyIf: []probe.Conditional{{If: unneeded,
			Manifest: []string{"ssh {node} sudo nft delete rule {table} {inchain} handle {handle}"}}},
		Radius: divertRadius,
	}
	removeIptablesRule = probe.Fix{
		Says: "Remove that rule of chain {inchain}, and configure the program that adds it to leave {service} alone.",
		Manifest: []string{"ssh {node} sudo {iptables} -t {iptable} -S  # other chains may have the same rule",
			"ssh {node} sudo nft -a list chain {table} {inchain}  # with handles", whoDiverts},
		OnlyIf: []probe.Conditional{{If: unneeded,
			Manifest: []string{"ssh {node} sudo nft delete rule {table} {inchain} handle {handle}"}}},
		Radius: divertRadius,
	}
	removeLegacyRule = probe.Fix{
		Says:     "Remove rule {handle} of chain {inchain} in legacy iptables, and configure the program that adds it to leave {service} alone.",
		Manifest: []string{"ssh {node} sudo {iptables} -t {iptable} -L {inchain} -n -v --line-numbers", whoDiverts},
		OnlyIf: []probe.Conditional{{If: unneeded + ", and it still has that number",
			Manifest: []string{"ssh {node} sudo {iptables} -t {iptable} -D {inchain} {handle}"}}},
		Radius: divertRadius,
	}
	removeHostPort = probe.Fix{
		Says: "Check which pod has {sent}. Where it is gone, flush chain {inchain}. Where it runs, give it another hostPort: that port is the Service's.",
		Manifest: []string{"kubectl get pods -A -o wide --field-selector spec.nodeName={node} | grep -wF -e {sent} -e NAME",
			"ssh {node} sudo {iptables} -t {iptable} -S | grep -F -e {inchain}"},
		OnlyIf: []probe.Conditional{{If: "no pod has {sent}",
			Manifest: []string{"ssh {node} sudo {iptables} -t {iptable} -F {inchain}"}}},
		Radius: divertRadius,
	}
	removeHostPortNFT = probe.Fix{
		Says: "Check which pod has {sent}. Where it is gone, remove rule {handle} of chain {inchain}. Where it runs, give it another hostPort: that port is the Service's.",
		Manifest: []string{"kubectl get pods -A -o wide --field-selector spec.nodeName={node} | grep -wF -e {sent} -e NAME",
			"ssh {node} sudo nft -a list chain {table} {inchain}"},
		OnlyIf: []probe.Conditional{{If: "no pod has {sent}",
			Manifest: []string{"ssh {node} sudo nft delete rule {table} {inchain} handle {handle}"}}},
		Radius: divertRadius,
	}
	removeLocalRoute = probe.Fix{
		Says: "Remove the route {localroute} from the table local, and configure the program that adds it to leave {service} alone.",
		Manifest: []string{"ssh {node} ip -{family} route show table local {localroute}  # proto names who made it",
			"ssh {node} systemctl list-units --all '*guest-agent*' '*cloud*' 'keepalived*'"},
		OnlyIf: []probe.Conditional{{If: "nothing needs that route",
			Manifest: []string{"ssh {node} sudo ip -{family} route del local {localroute} table local"}}},
		Radius: divertRadius,
	}
)
