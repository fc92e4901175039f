package ask

import (
	"context"
	"net/netip"
	"slices"
	"sync"

	"github.com/calico-probe/calico-probe/internal/subject/service"
	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/probe/node"
	"github.com/calico-probe/calico-probe/probe/reach"
)

// serviceNodePortCheck binds service.ServiceNodePort to the function that runs it.
var serviceNodePortCheck = answers.To(service.ServiceNodePort, serviceNodePort)

func serviceNodePort(ctx context.Context, p *probe.Pass) {
	targets := p.Of(probe.KindNodePort)
	if len(targets) == 0 {
		p.Report(node.Gap(p, probe.KindNodePort, "no NodePort Service with ready endpoints found"))
		return
	}
	var mu sync.Mutex
	var results []probe.Result
	node.Each(targets, func(t probe.Target) {
		to := netip.AddrPortFrom(t.Addr, uint16(t.Port))
		r := node.About(reach.Connect(ctx, to).Result(ctx), t).On(t.Name+" "+t.Node+" "+to.String()).
			With(probe.FactFamily, node.Family(t.Addr)).With(probe.FactNode, t.Node).With(probe.FactPort, t.Port)
		mu.Lock()
		defer mu.Unlock()
		results = append(results, r)
	})
	for _, r := range refusedByAll(results) {
		p.Report(r)
	}
}

// refusedByAll retracts refusals if no node gives another answer. If one node has no rules, that is a fault. But a
// cluster may be configured without NodePorts.
func refusedByAll(results []probe.Result) []probe.Result {
	other := func(r probe.Result) bool { return r.Facts.Str(probe.FactReason) != "refused" }
	if len(results) < 2 || slices.ContainsFunc(results, other) {
		return results
	}
	for i := range results {
		results[i].Status = probe.Info
		results[i].Saw += ", as at every node: NodePorts may be bound to other addresses"
	}
	return results
}
