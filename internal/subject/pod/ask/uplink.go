package ask

import (
	"context"
	"fmt"
	"net/netip"
	"slices"

	"github.com/calico-probe/calico-probe/internal/subject/pod"
	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/probe/kernel"
	"github.com/calico-probe/calico-probe/probe/node"
)

// podUplinkCheck binds pod.PodUplink to the function that runs it.
var podUplinkCheck = answers.To(pod.PodUplink, podUplink)

func podUplink(_ context.Context, p *probe.Pass) {
	all, err := kernel.Links()
	if err != nil {
		p.Report(node.Unseen(err))
		return
	}
	for _, t := range p.Of(probe.KindLocal) {
		if t.Name != p.From {
			continue
		}
		i := slices.IndexFunc(all, func(d kernel.Link) bool {
			return slices.ContainsFunc(d.Addrs, func(a netip.Prefix) bool { return a.Addr() == t.Addr })
		})
		f := node.Family(t.Addr)
		r := probe.Found(probe.Fail, "no interface in the pod has its address %s", t.Addr)
		if i >= 0 {
			r = judgeUplink(&all[i], f)
		}
		p.Report(r.On(fmt.Sprintf("IPv%d", f)).With(probe.FactFamily, f))
	}
	reportRedirects(p)
}

// judgeUplink evaluates a pod's interface and its default route.
func judgeUplink(d *kernel.Link, f int) probe.Result {
	way, err := node.Lookup(node.DocumentationAddrs[f])
	r := probe.Found(probe.OK, "%s is %s, MTU %d, with a default route", d.Name, d.State, d.MTU)
	switch {
	case !d.Up:
		r = probe.Found(probe.Fail, "%s in the pod is administratively down", d.Name)
	case slices.Contains(node.Dead, d.State):
		r = probe.Found(probe.Fail, "%s in the pod has no carrier (%s): its other end, on the node, is down or gone",
			d.Name, d.State)
	case err != nil && node.Unroutable(err).Status == probe.Fail:
		r = probe.Found(probe.Fail, "the pod has no default route: %s", node.Unroutable(err).Saw)
	case err != nil:
		return node.Unseen(err)
	default:
		r = r.With(node.FactGateway, way.Gateway.String())
	}
	return r.With(probe.FactInterface, d.Name).With(probe.FactLinkState, d.State).With(probe.FactLinkMTU, d.MTU)
}
