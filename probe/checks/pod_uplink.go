package checks

import (
	"context"
	"fmt"
	"net/netip"
	"slices"

	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/probe/kernel"
)

// podUplink asks whether packets can leave the pod that the others are asked from:
// one pod's cable that is out is not a cluster's outage.
var podUplink = &probe.Check{
	ID: probe.CheckPodUplink, Asks: "can packets leave the workload pod that is asked from?", From: probe.FromPod,
	In:   probe.Standard,
	Tags: []string{tagNetwork, tagCNI}, Access: []string{"netlink", probe.AccessPods}, Run: uplinkOfPod,
	Doc: `Looked at inside the network namespaces of two of this node's workload pods, where there are two: the interface with the pod's address, and whether there is a default route. What other checks ask from inside pods needs it.
ok: up, with a carrier and a default route. fail: the interface is switched off, or has no carrier because its other end, a cali* interface of the node, is down or gone; or there is no default route, so the CNI plugin has not done its work. warn: so it is in one pod, and the other one is well; or a firewall rule in the pod's namespace redirects its connections to a port where nothing listens, as a service mesh leaves it whose proxy is gone.
skip: no pod on this node to ask from, or none that can be entered.`,
}

func uplinkOfPod(_ context.Context, p *probe.Pass) {
	all, err := kernel.Links()
	if err != nil {
		p.Report(unseen(err))
		return
	}
	for _, t := range p.Of(probe.KindLocal) {
		if t.Name != p.From {
			continue
		}
		i := slices.IndexFunc(all, func(d kernel.Link) bool {
			return slices.ContainsFunc(d.Addrs, func(a netip.Prefix) bool { return a.Addr() == t.Addr })
		})
		f := family(t.Addr)
		r := probe.Found(probe.Fail, "no interface in the pod has its address %s", t.Addr)
		if i >= 0 {
			r = leaves(&all[i], f)
		}
		p.Report(r.On(fmt.Sprintf("IPv%d", f)).With(FactFamily, f))
	}
	reportRedirects(p)
}

// leaves judges a pod's interface and the way out of it.
func leaves(d *kernel.Link, f int) probe.Result {
	way, err := lookup(nobodys[f])
	r := probe.Found(probe.OK, "%s is %s, MTU %d, with a default route", d.Name, d.State, d.MTU)
	switch {
	case !d.Up:
		r = probe.Found(probe.Fail, "%s in the pod is switched off", d.Name)
	case slices.Contains(dead, d.State):
		r = probe.Found(probe.Fail, "%s in the pod has no carrier (%s): its other end, on the node, is down or gone",
			d.Name, d.State)
	case err != nil && unroutable(err).Status == probe.Fail:
		r = probe.Found(probe.Fail, "the pod has no default route: %s", unroutable(err).Saw)
	case err != nil:
		return unseen(err)
	default:
		r = r.With(FactGateway, way.gateway.String())
	}
	return r.With(FactInterface, d.Name).With(FactLinkState, d.State).With(FactLinkMTU, d.MTU)
}
