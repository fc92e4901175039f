package ask

import (
	"net/netip"
	"slices"
	"strings"

	"github.com/calico-probe/calico-probe/internal/subject/firewall"
	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/probe/kernel"
	"github.com/calico-probe/calico-probe/probe/node"
)

// targetMasquerade is the target of node-firewall's result about foreign rules that change the source address of pods.
const targetMasquerade = "masquerading"

// foreignNAT looks for a foreign rule that masquerades packets from a pod of this node to a pod of another node. It
// returns false without such a rule, or if the rules are unreadable.
func foreignNAT(p *probe.Pass) (probe.Result, bool) {
	flows := podFlows(p)
	all, err := kernel.Walls(p.Host, func(table, chain string) bool {
		return node.ForeignChain(table, chain) && !slices.Contains([]string{"filter", "mangle", "raw", "security"}, table)
	})
	if len(flows) == 0 || err != nil { // other checks report it
		return probe.Result{}, false
	}
	for _, w := range all {
		if w.Hook != "postrouting" {
			continue
		}
		for _, f := range flows {
			if rule, _ := f.through(all, w, 0); rule != "" {
				text := probe.OneLine(w.Family + " " + w.Table + " " + rule)
				r := probe.Found(probe.Info, "a rule that belongs to neither Calico nor kube-proxy masquerades packets "+
					"between pods: %s", text).With(firewall.FactNATRule, text)
				return deniedByLabels(p, r), true
			}
		}
	}
	return probe.Found(probe.OK, "no foreign rule clearly masquerades traffic to pods on other nodes"), true
}

// deniedByLabels makes a masquerading rule a warning if a policy admits pods by labels: the policy does not recognize
// masqueraded pods.
func deniedByLabels(p *probe.Pass, r probe.Result) probe.Result {
	for _, felix := range p.Of(probe.KindFelix) {
		if policy := felix.Attrs[probe.AttrByLabels]; policy != "" {
			r.Status = probe.Warn
			r.Saw += "; " + policy + " allows pods by their labels, but these packets have a node's address"
			return r.With(firewall.FactByLabels, policy)
		}
	}
	return r
}

// A podFlow is packets from a pod of this node to a pod of another node.
type podFlow struct {
	from, to netip.Addr
	device   string // the outgoing interface
}

// podFlows returns one flow for each family that pods here and elsewhere have.
func podFlows(p *probe.Pass) []podFlow {
	var out []podFlow
	for _, f := range []int{4, 6} {
		of := func(t probe.Target) bool { return node.Family(t.Addr) == f }
		here, there := p.Of(probe.KindLocal), node.Elsewhere(p.Of(probe.KindPod))
		i := slices.IndexFunc(here, of)
		j := slices.IndexFunc(there, func(t probe.Target) bool { return of(t) && t.Node != p.Host.Node })
		if i < 0 || j < 0 {
			continue
		}
		if way, known := node.LookupFrom(there[j].Addr, netip.Addr{}, ""); known {
			out = append(out, podFlow{here[i].Addr.Unmap(), there[j].Addr.Unmap(), way.Device})
		}
	}
	return out
}

// proxyMark is the mark of packets that kube-proxy masquerades (its masqueradeBit, 14 by default).
const proxyMark = "0x4000"

// maxJumps limits the depth of nested jumps. The kernel allows 16.
const maxJumps = 16

// through returns the first rule of a chain or its jump targets that certainly masquerades the flow, with its chain, or
// "". It also reports that the calling chains' later rules do not see the flow, or may not.
func (f podFlow) through(all []kernel.Wall, w kernel.Wall, depth int) (rule string, over bool) {
	for _, text := range w.Rules {
		is, to, fits := f.meets(text)
		if fits == no {
			continue
		}
		switch is {
		case "masquerade", "snat", "nat":
			if fits == yes {
				return w.Name + ": " + text, true
			}
		case "return":
			return "", fits == maybe
		case "accept":
			return "", true
		case "jump", "goto":
			i := chainNamed(all, w, to)
			if i < 0 || depth == maxJumps {
				return "", true
			}
			rule, over = f.through(all, all[i], depth+1)
			if rule != "" && fits == maybe {
				continue // the rule may not match, so the next ones count
			}
			if rule != "" || over || is == "goto" {
				return rule, true
			}
		}
	}
	return "", false
}

// chainNamed is the chain with a name in the same table, or -1 if it was not read.
func chainNamed(all []kernel.Wall, beside kernel.Wall, name string) int {
	return slices.IndexFunc(all, func(o kernel.Wall) bool {
		return o.Name == name && o.Table == beside.Table && o.Family == beside.Family && o.Legacy == beside.Legacy
	})
}

// Whether a rule matches the flow.
type fits int

const (
	yes   fits = iota
	no         // surely not
	maybe      // it has conditions that are not understood
)

// meets parses a rule in the form of kernel.Walls: its action, the chain to which it jumps, and whether it matches.
func (f podFlow) meets(rule string) (does, to string, is fits) {
	words := strings.Fields(rule)
	next := func(i int) string {
		if i+1 < len(words) {
			return words[i+1]
		}
		return ""
	}
	for i := 0; i < len(words); i++ {
		not := words[i] == "not"
		if not {
			i++
		}
		if i == len(words) {
			return does, to, maybe
		}
		met := maybe
		switch words[i] {
		case "masquerade", "snat", "nat", "return", "accept", "drop", "reject":
			does, met = words[i], yes
		case "jump", "goto":
			does, to, met = words[i], next(i), yes
			i++
		case "saddr":
			met = within(f.from, next(i))
			i++
		case "daddr":
			met = within(f.to, next(i))
			i++
		case "saddrtype", "daddrtype": // both ends are pods, not addresses of this node
			if next(i) == "local" {
				met = no
			}
			i++
		case "mark": // only packets to Services have kube-proxy's mark
			if mark, _, _ := strings.Cut(next(i), "/"); mark == proxyMark {
				met = no
			}
			i++
		case "oif":
			met = no
			prefix, several := strings.CutSuffix(next(i), "+")
			if next(i) == f.device || several && strings.HasPrefix(f.device, prefix) {
				met = yes
			}
			i++
		}
		if not && met != maybe {
			met = no - met
		}
		switch {
		case met == no:
			return does, to, no
		case met == maybe:
			is = maybe
		}
	}
	return does, to, is
}

// within reports whether an address is in a range, or equals an address.
func within(a netip.Addr, text string) fits {
	if one, err := netip.ParseAddr(text); err == nil {
		text = netip.PrefixFrom(one, one.BitLen()).String()
	}
	net, err := netip.ParsePrefix(text)
	switch {
	case err != nil:
		return maybe
	case net.Contains(a):
		return yes
	}
	return no
}
