package ask

import (
	"context"
	"fmt"
	"net/netip"
	"slices"

	"github.com/calico-probe/calico-probe/internal/subject/route"
	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/probe/kernel"
	"github.com/calico-probe/calico-probe/probe/node"
)

// xfrmPoliciesCheck binds route.XFRMPolicies to the function that runs it.
var xfrmPoliciesCheck = answers.To(route.XFRMPolicies, xfrmPolicies)

// Facts of xfrm-policies.
const (
	factRefusesAll probe.Fact = "refuses_all" // true if the policy drops the packets
	factAssociated probe.Fact = "associated"  // whether there is a security association for the policy
	factTemplate   probe.Fact = "template"    // how packets must be encrypted
)

// flow is a packet that a node with Calico sends, receives or forwards.
type flow struct {
	from, to  netip.Addr
	text      string
	direction string
}

func xfrmPolicies(_ context.Context, p *probe.Pass) {
	policies, err := kernel.XFRMPolicies()
	if err != nil {
		p.Report(node.Unseen(err))
		return
	}
	if len(policies) == 0 {
		p.Report(probe.Found(probe.OK, "no IPsec policies on this node"))
		return
	}
	flows := flowsOf(p)
	if len(flows) == 0 {
		p.Report(node.Gap(p, probe.KindNode, "no other node or pod found"))
		return
	}
	found := matchPolicies(policies, flows)
	for _, r := range found {
		p.Report(r)
	}
	if len(found) == 0 {
		p.Report(probe.Found(probe.OK, "%d IPsec policies, but they match no traffic between nodes, pods and Services",
			len(policies)))
	}
}

// maxFlows is the maximum number of address pairs to compare, because it grows with the square of
// the number of targets.
const maxFlows = 400

// flowsOf returns the packets of this node and its pods.
func flowsOf(p *probe.Pass) []flow {
	var out []flow
	add := func(from, to probe.Target, directions ...string) {
		if len(out) >= maxFlows || !from.Addr.IsValid() || !to.Addr.IsValid() ||
			node.Family(from.Addr) != node.Family(to.Addr) ||
			from.Addr == to.Addr {
			return
		}
		for _, d := range directions {
			out = append(out, flow{from.Addr.Unmap(), to.Addr.Unmap(), fmt.Sprintf("from %s to %s", from, to), d})
		}
	}
	self, local := node.Unique(p.Of(probe.KindSelf)), node.Unique(p.Of(probe.KindLocal))
	far := node.Unique(p.Of(probe.KindNode, probe.KindPeer))
	pods := node.Unique(p.Of(probe.KindPod))
	for i := range self {
		self[i].Name = "this node"
		for _, t := range slices.Concat(far, pods) {
			add(self[i], t, "out")
			add(t, self[i], "in")
		}
		for _, t := range slices.Concat(local, node.Unique(p.Of(probe.KindService, probe.KindDatastore, probe.KindDNS))) {
			add(self[i], t, "out")
		}
	}
	for _, l := range local {
		for _, t := range slices.Concat(pods, far, local) {
			add(l, t, "fwd", "out")
			add(t, l, "fwd", "out")
		}
	}
	return out
}

// matchPolicies returns the policies that match a packet, without duplicates. With each policy, it
// returns the first packet that matches.
func matchPolicies(policies []kernel.XFRMPolicy, flows []flow) []probe.Result {
	type hit struct{ policy, flow, count int }
	var hits []hit
	for i, f := range flows {
		best := -1
		for j, p := range policies {
			if p.Direction == f.direction && p.From.Contains(f.from) && p.To.Contains(f.to) && p.FromPort == 0 &&
				p.ToPort == 0 && (best < 0 || p.Priority < policies[best].Priority) {
				best = j
			}
		}
		if best < 0 || !policies[best].Blocks && !policies[best].Required {
			continue // unencrypted packets are allowed to pass, and do pass
		}
		if k := slices.IndexFunc(hits, func(h hit) bool { return h.policy == best }); k >= 0 {
			hits[k].count++
			continue
		}
		hits = append(hits, hit{best, i, 1})
	}
	var out []probe.Result
	for _, h := range hits {
		out = append(out, judgePolicy(policies[h.policy], flows[h.flow]))
	}
	return out
}

// judgePolicy describes a policy's effect on a packet.
func judgePolicy(p kernel.XFRMPolicy, f flow) probe.Result {
	var r probe.Result
	switch {
	case p.Blocks:
		r = probe.Found(probe.Fail, "packets %s are dropped: the policy blocks them", f.text)
	case !p.Associated:
		r = probe.Found(probe.Warn, "packets %s must be encrypted (%s), but no security association exists: they are dropped",
			f.text, p.Template)
	default:
		r = probe.Found(probe.Info, "packets %s are encrypted (%s)", f.text, p.Template)
	}
	return r.On(fmt.Sprintf("%s %s", p.Direction, p.Selector())).With(route.FactSelector, p.Selector()).
		With(route.FactDirection, p.Direction).With(factRefusesAll, p.Blocks).With(factAssociated, p.Associated).
		With(factTemplate, p.Template).With(route.FactFrom, p.From.String()).With(route.FactTo, p.To.String()).
		With(probe.FactFamily, node.Family(p.To.Addr()))
}
