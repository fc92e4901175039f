package diagnose

import (
	"fmt"
	"slices"
	"strings"

	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/probe/checks"
	"github.com/calico-probe/calico-probe/probe/facts"
)

// familyCutOff is a node of which one IP family is dead, as its neighbours see it.
var familyCutOff = &Rule{
	ID: "family-cut-off", Layer: LayerKernel, Title: "the node answers by one IP family, and by the other not at all",
	Doc: `From the same neighbours the node answers pings and takes connections at its address of one family, and gives no answer at all at that of the other. So the machine, its link and its daemons are well, and what serves that family is not: no way back for the answers (a main routing table without routes, or no rule that leads to it, as where something deleted the rules 32766 and 32767), or a firewall of that family alone. Where it is the family that the API server is asked by, the kubelet is silent and the node NotReady.
Told from a node that is off, and from a kubelet that ended, by the answers of the other family; from an address that is gone (address-unanswered) by the link, where somebody answers for it. Only where no probe got onto the node: inside more is known.`,
	Fix: probe.Fix{
		Says: "Log in by the family that answers, and see whether address, routes, routing rules and firewall of the other are there.",
		Manifest: []string{"ssh {address} 'ip -{dead} addr; ip -{dead} rule; ip -{dead} route show table main'",
			"ssh {address} 'sudo nft list ruleset | grep -n drop; sudo iptables-save -c | grep -e DROP -e REJECT'"},
		OnlyIf: []probe.Conditional{{If: "no rule leads to the tables main and default", Manifest: []string{
			"ssh {address} 'sudo ip -{dead} rule add pref 32766 lookup main; sudo ip -{dead} rule add pref 32767 lookup default'"}}},
		Radius: "reading changes nothing; the two rules are the kernel's own and are there on every machine",
	},
	Explains: []string{"kubelet-cut-off", "kubelet-silent", "kubelet-frozen", "kubelet-dead", "node-unreachable",
		"kubelet-port-blocked"},
	Match: func(f Findings) []Case {
		if len(f.Failed(facts.CheckNodeLease)) == 0 || len(good(f, probe.CheckPlaced)) > 0 { // inside more is known
			return nil
		}
		for _, family := range []int{4, 6} {
			dead, alive := bySelf(f, family), bySelf(f, 4+6-family)
			if len(dead.open)+len(dead.refused)+len(alive.silent) > 0 || len(dead.silent) < 2 || len(alive.open) < 2 ||
				slices.ContainsFunc(dead.silent, addressless) {
				continue
			}
			c := Case{
				About: familyName(family), Family: family,
				Says: fmt.Sprintf("{node} answers %s by %s, and not at all by %s: its routes, its routing rules or its "+
					"firewall of that family", strings.Join(askers(alive.open), ", "), familyName(4+6-family), familyName(family)),
				For: append(clues(strong, dead.silent), clues(hint, alive.open)...), Covers: kubeletGone,
				Args: map[string]Arg{"dead": numberArg(float64(family)),
					"address": addressArg(addressOf(alive.open[0]))},
			}
			if slices.ContainsFunc(dead.silent, resolves) {
				c.Says += "; the link is well, for its address is found there"
			}
			return []Case{c}
		}
		return nil
	},
}

// mainRuleMissing is a machine whose kernel is not told any more to look into its main routing table.
var mainRuleMissing = &Rule{
	ID: "main-rule-missing", Layer: LayerKernel, Title: "no routing rule leads to the main table: nothing of that family is routed",
	Doc: `The kernel finds its routing tables by rules ("ip rule"), and makes three itself: 0 for local, 32766 for main, 32767 for default. Whatever deletes the second, as a network daemon that takes all rules for its own, or "ip rule flush", takes every route away at once: "Network is unreachable" for all that the node or its pods send, and no answer to anybody, while addresses and routes look as they should.
Told from routes that are gone by the main table, which has them.`,
	Fix: probe.Fix{
		Says: "Give the kernel its rules back, and find out who deleted them.",
		Manifest: []string{"ssh {node} 'sudo ip -{dead} rule add pref 32766 lookup main; sudo ip -{dead} rule add pref 32767 lookup default'  # by its console, or its address of the other family",
			"ssh {node} grep -rn ManageForeignRoutingPolicyRules /etc/systemd/networkd.conf /etc/systemd/networkd.conf.d"},
		Radius: "the two rules are the kernel's own and are there on every machine",
	},
	RuledOut: []string{checks.NodeUplink.ID},
	Explains: []string{"family-cut-off", "kubelet-cut-off", "kubelet-silent", "api-cut-off", "kube-proxy-cut-off",
		"dns-down", "node-dns-down", "default-route-missing", "bgp-waits", "pod-route-missing", "route-not-in-kernel"},
	Match: func(f Findings) []Case {
		var out []Case
		for _, r := range f.With(checks.RouteRules.ID, checks.FactMainless, true) {
			c := Case{About: familyName(familyOf(r)), Family: familyOf(r), Says: "on {node} " + r.Saw,
				For: clues(proof, []Finding{r}), Args: map[string]Arg{"dead": numberArg(float64(familyOf(r)))},
				Covers: slices.Concat(kubeletGone, withoutDatastore)}
			for _, one := range f.where(func(o Finding) bool {
				return bad(o.Status) && (familyOf(o) == familyOf(r) || familyOf(o) == 0) && unrouted(o)
			}) {
				c.Covers = append(c.Covers, Cover{Check: one.Check, About: one.Target})
			}
			out = append(out, c)
		}
		return out
	},
}

// unrouted tells whether the kernel had no way for what was sent, or nothing came back.
func unrouted(r Finding) bool {
	return slices.Contains([]string{"net-unreachable", "host-unreachable", "timeout"}, reasonOf(r)) ||
		strings.Contains(r.Saw, "network is unreachable")
}

// resolves and addressless tell whether a neighbour found the hardware address that an address has on the link, or
// none: then see address-unanswered.
func resolves(r Finding) bool { return r.Facts.Str(checks.FactNeighbour) == "reachable" }

func addressless(r Finding) bool {
	return slices.Contains([]string{"incomplete", "failed"}, r.Facts.Str(checks.FactNeighbour))
}

// bySelf is what neighbours got from the node's own addresses of a family: pings too.
func bySelf(f Findings, family int) reached {
	var out reached
	for _, r := range f.Elsewhere(checks.NeighbourReach.ID) {
		if familyOf(r) != family || addressOf(r) == "" || !strings.HasPrefix(r.Target, f.Node+" ") {
			continue
		}
		switch {
		case r.Status == probe.OK:
			out.open = append(out.open, r)
		case r.Status == probe.Skip, r.Status == probe.Unknown:
		case probe.SomebodyAnswered(reasonOf(r)):
			out.refused = append(out.refused, r)
		default:
			out.silent = append(out.silent, r)
		}
	}
	return out
}

// addressOf is the address in a target "NODE ADDRESS WHAT", "" where it is about something else, as a pod.
func addressOf(r Finding) string {
	words := strings.Fields(r.Target)
	if len(words) < 3 || !slices.Contains([]string{"icmp", "tcp"}, words[2]) {
		return ""
	}
	return words[1]
}
