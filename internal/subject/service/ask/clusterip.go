package ask

import (
	"context"
	"net/netip"
	"slices"

	"github.com/calico-probe/calico-probe/internal/subject/service"
	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/probe/node"
	"github.com/calico-probe/calico-probe/probe/reach"
)

// serviceClusterIPCheck binds service.ServiceClusterIP to the function that runs it.
var serviceClusterIPCheck = answers.To(service.ServiceClusterIP, serviceClusterIP)

func serviceClusterIP(ctx context.Context, p *probe.Pass) {
	var targets []probe.Target
	for _, t := range p.Of(probe.KindDatastore, probe.KindService) {
		if t.Kind == probe.KindDatastore && t.Name == "service" {
			t.Name = "default/kubernetes"
		} else if t.Kind == probe.KindDatastore {
			continue
		}
		if t.Addr.IsValid() &&
			!slices.ContainsFunc(targets, func(o probe.Target) bool { return o.Addr == t.Addr && o.Port == t.Port }) {
			targets = append(targets, t)
		}
	}
	if len(targets) == 0 {
		p.Report(node.Gap(p, probe.KindService, "no Service with ready endpoints found"))
		return
	}
	node.Each(targets, func(t probe.Target) {
		to := netip.AddrPortFrom(t.Addr, uint16(t.Port))
		r := reach.Connect(ctx, to).Result(ctx)
		if t.Kind == probe.KindService && r.Facts.Str(probe.FactReason) == "refused" {
			r.Status = probe.Info // the pod itself refused, so the path to the pod works
			r.Saw += ": the endpoint is reachable, but its port is closed"
		}
		p.Report(node.About(r, t).On(t.Name+" "+to.String()).With(probe.FactFamily, node.Family(t.Addr)).With(probe.FactPort,
			t.Port))
	})
}
