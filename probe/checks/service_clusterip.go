package checks

import (
	"context"
	"net/netip"
	"slices"

	"github.com/calico-probe/calico-probe/probe"
)

// ServiceClusterIP asks for what kube-proxy, or what stands in for it, has made of
// services on this very node.
var ServiceClusterIP = &probe.Check{
	ID: "service-clusterip", Asks: "do services answer at their cluster IPs, from this node and from inside a pod?",
	From: probe.FromNode, Inside: true, In: probe.Standard,
	Tags: []string{tagNetwork, tagService}, Access: []string{"host network", probe.AccessPods},
	Needs: []string{probe.CheckNodeUplink, probe.CheckPodUplink}, Run: serviceClusterIP,
	Doc: `A TCP connection to the API server's service, and to another service with ready endpoints, at its cluster IP in every family it has. It is opened and closed, without sending data. Asked from the node, and again from inside one of this node's own pods.
ok: one of the endpoints accepted it. fail, timeout: the rules of kube-proxy on this node lead nowhere, or lead to an endpoint that packets do not reach: pod-tcp asks pods themselves. fail, rejected: the rules on this node know of no ready endpoint, though the API has one: kube-proxy is behind, see kubeproxy-health. info, refused: an endpoint is reached and does not listen. fail, refused, of the API server's: nobody listens behind it. fail, net-unreachable: this node, or the pod, has no route for cluster IPs, not even a default one.
When the node is answered and the pod is not, forwarding or policy between them is what is broken. A NetworkPolicy that keeps the service's pods from this node, or the asking pod from them, makes it a warning.
skip: no service is known.`,
}

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
		p.Report(gap(p, probe.KindService, "no service with ready endpoints is known"))
		return
	}
	each(targets, func(t probe.Target) {
		to := netip.AddrPortFrom(t.Addr, uint16(t.Port))
		r := connect(ctx, to).result(ctx)
		if t.Kind == probe.KindService && r.Facts.Str(probe.FactReason) == "refused" {
			r.Status = probe.Info // by the pod itself: the way there is good
			r.Saw += ": an endpoint is reached, but nothing listens there"
		}
		p.Report(about(r, t).On(t.Name+" "+to.String()).With(FactFamily, family(t.Addr)).With(FactPort, t.Port))
	})
}
