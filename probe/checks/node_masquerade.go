package checks

import (
	"net/netip"
	"slices"
	"strings"

	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/probe/kernel"
)

// targetMasquerade is node-firewall's answer about rules of others that change the sender of pods' packets.
const targetMasquerade = "masquerading"

// FactNATRule is such a rule, with its chain.
const FactNATRule probe.Fact = "nat_rule"

// foreignNAT looks for a rule of others that masquerades what pods of this node send to pods of others; false where
// there are none, or the rules cannot be read.
func foreignNAT(p *probe.Pass) (probe.Result, bool) {
	pods, pools := p.Of(probe.KindPod), poolsOf(p)
	if len(pods) == 0 || len(pools) == 0 {
		return probe.Result{}, false
	}
	way, known := lookupFrom(pods[0].Addr, netip.Addr{}, "")
	all, err := kernel.Walls(p.Host, func(table, chain string) bool {
		return foreignChain(table, chain) && !slices.Contains([]string{"filter", "mangle", "raw", "security"}, table)
	})
	if !known || err != nil { // other checks say so
		return probe.Result{}, false
	}
	for _, w := range all {
		if w.Hook != "postrouting" {
			continue
		}
		if rule := firstMask(w.Rules, pools, way.device); rule != "" {
			text := probe.OneLine(w.Family + " " + w.Table + " " + w.Name + ": " + rule)
			return probe.Found(probe.Info, "a rule that is neither Calico's nor kube-proxy's gives pods' packets to other "+
				"pods the node's address: %s", text).With(FactNATRule, text), true
		}
	}
	return probe.Found(probe.OK, "no rule of others surely hides the addresses of pods from other nodes' pods"), true
}

// firstMask is the first rule of a chain that masks pods, "" where there is none, or one before it may let them out.
func firstMask(rules []string, pools []netip.Prefix, device string) string {
	for _, rule := range rules {
		words := strings.Fields(rule)
		switch {
		case slices.Contains(words, "return"), slices.Contains(words, "accept"), leavesFor(words):
			return ""
		case masksPods(rule, pools, device):
			return rule
		}
	}
	return ""
}

// leavesFor tells whether a rule hands packets to a chain of others, which may let them out.
func leavesFor(words []string) bool {
	i := slices.IndexFunc(words, func(w string) bool { return w == "jump" || w == "goto" })
	return i >= 0 && (i+1 == len(words) || foreignChain("", words[i+1]))
}

// masksPods tells whether a rule, in words as kernel.Walls has it, surely masquerades packets from a pool to a pool
// that leave by a device.
func masksPods(rule string, pools []netip.Prefix, device string) bool {
	words := strings.Fields(rule)
	masks := false
	for i := 0; i < len(words); i++ {
		not := words[i] == "not"
		if not {
			i++
		}
		if i == len(words) {
			return false
		}
		switch words[i] {
		case "masquerade", "snat", "nat":
			masks = true
			continue
		case "saddr", "daddr", "oif":
		default: // a condition that is not understood, or another action
			return false
		}
		kind := words[i]
		if i++; i == len(words) {
			return false
		}
		if kind == "oif" {
			if (words[i] == device) == not {
				return false
			}
			continue
		}
		net, err := netip.ParsePrefix(words[i]) // one address alone is no pool
		within := func(pool netip.Prefix) bool { return net.Overlaps(pool) && net.Bits() <= pool.Bits() }
		if err != nil || slices.ContainsFunc(pools, within) == not {
			return false
		}
	}
	return masks
}
