package checks

import (
	"context"
	"net/netip"
	"slices"
	"sync"

	"github.com/calico-probe/calico-probe/probe"
)

// ServiceNodePort asks one service at the same port of every node. In the field a NodePort
// worked on the node that had the pod and on no other, and kube-proxy was blamed
// for a pod network that was down.
var ServiceNodePort = &probe.Check{
	ID: "service-nodeport", Asks: "does a NodePort service answer at every node's own address?", From: probe.FromNode,
	In:   probe.Standard,
	Tags: []string{tagNetwork, tagService}, Access: []string{"host network"}, Needs: []string{probe.CheckNodeUplink},
	Run: serviceNodePort,
	Doc: `A TCP connection from this node to one and the same NodePort service at each node's InternalIP, this node's own among them. It is opened and closed, without sending data.
ok: it was accepted. fail, timeout: that node's packets to the service's pods get lost, or a firewall drops the NodePort range (30000-32767) between the nodes. When it answers at the nodes that have one of the pods and at no other, the pod network between the nodes is down: see pod-ping and bgp-session, not kube-proxy. fail, refused or rejected: that node's kube-proxy has no rule for it, or knows of no endpoint.
info: every node refuses it: then NodePorts are most likely kept to other addresses (kube-proxy's nodePortAddresses).
skip: no NodePort service is known.`,
}

func serviceNodePort(ctx context.Context, p *probe.Pass) {
	targets := p.Of(probe.KindNodePort)
	if len(targets) == 0 {
		p.Report(gap(p, probe.KindNodePort, "no NodePort service with ready endpoints is known"))
		return
	}
	var mu sync.Mutex
	var results []probe.Result
	each(targets, func(t probe.Target) {
		to := netip.AddrPortFrom(t.Addr, uint16(t.Port))
		r := about(connect(ctx, to).result(ctx), t).On(t.Name+" "+t.Node+" "+to.String()).
			With(FactFamily, family(t.Addr)).With(probe.FactNode, t.Node).With(FactPort, t.Port)
		mu.Lock()
		defer mu.Unlock()
		results = append(results, r)
	})
	for _, r := range refusedByAll(results) {
		p.Report(r)
	}
}

// refusedByAll takes refusals back when no node answers otherwise: one node
// without rules is a fault, a cluster that offers no NodePorts there is set so.
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
