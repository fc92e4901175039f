package ask

import (
	"net/netip"
	"slices"

	"github.com/calico-probe/calico-probe/internal/subject/firewall"
	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/probe/kernel"
	"github.com/calico-probe/calico-probe/probe/node"
)

// targetMasquerade is the target of node-firewall's result about rules of other owners that change
// the source address of pods.
const targetMasquerade = "masquerading"

// foreignNAT looks for a rule of another owner that masquerades packets from a pod on this node to a pod on another
// node. It returns false without such a rule, or if the rules are unreadable.
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
			if rule, _ := f.certain(all, w, 0, "masquerade", "snat", "nat"); rule != "" {
				text := probe.OneLine(w.Family + " " + w.Table + " " + rule)
				r := probe.Found(probe.Info, "a rule that belongs to neither Calico nor kube-proxy masquerades packets "+
					"between pods: %s", text).With(firewall.FactNATRule, text)
				return deniedByLabels(p, r), true
			}
		}
	}
	return probe.Found(probe.OK, "no foreign rule clearly masquerades traffic to pods on other nodes"), true
}

// deniedByLabels turns a masquerading rule into a warning if a policy allows pods by labels, because the policy does
// not recognise masqueraded pods.
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

// podFlows returns one flow for each family that pods here and elsewhere have.
func podFlows(p *probe.Pass) []flow {
	var out []flow
	for _, f := range []int{4, 6} {
		of := func(t probe.Target) bool { return node.Family(t.Addr) == f }
		here, there := p.Of(probe.KindLocal), node.Elsewhere(p.Of(probe.KindPod))
		i := slices.IndexFunc(here, of)
		j := slices.IndexFunc(there, func(t probe.Target) bool { return of(t) && t.Node != p.Host.Node })
		if i < 0 || j < 0 {
			continue
		}
		if way, known := node.LookupFrom(there[j].Addr, netip.Addr{}, ""); known {
			out = append(out, flow{from: here[i].Addr.Unmap(), to: there[j].Addr.Unmap(), out: way.Device})
		}
	}
	return out
}
