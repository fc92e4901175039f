package checks

import (
	"cmp"
	"context"
	"fmt"
	"net/netip"
	"time"

	"github.com/calico-probe/calico-probe/probe"
)

// PodTCP asks what users' programs do and a ping does not: where ICMP comes
// through and TCP hangs, a checksum that some driver or tunnel gets wrong is
// the usual reason.
var PodTCP = &probe.Check{
	ID: "pod-tcp", Asks: "do workload pods, here and on other nodes, answer TCP from this node and from inside a pod?", From: probe.FromNode, Inside: true, In: probe.Standard,
	Tags: []string{tagNetwork}, Access: []string{"host network", probe.AccessPods},
	Needs: []string{probe.CheckNodeUplink, probe.CheckPodUplink}, Run: podTCP,
	Doc: `A TCP connection to a running workload pod on each of up to eight other nodes, and to some on this one: to a port the pod declares, or to an unused one if it declares none. It is opened and closed, without sending data. Asked from the node, and again from inside one of this node's own pods.
ok: it was accepted, or reset from a port that the pod does not declare: the reset came from the pod, so the path is good. info: refused on a declared port: the path is good but nothing listens there. fail, timeout: packets are lost; when pod-ping to the same pod is good, this is the mark of broken checksums (a NIC's or VXLAN's offload), of a firewall, or of policy that lets ICMP through. fail, rejected: a firewall on the way says no by ICMP, and which machine it was; Calico's own policy drops without a word unless it was told to reject. fail, net-unreachable, host-unreachable, blackhole: no route, here or where the ICMP message came from.
A NetworkPolicy that allows neither this node nor the asking pod to that very pod makes it fail too; pods of other namespaces then answer.
own node, from inside a pod: the port of the kubelet on the node that it is on. warn: no answer, and Felix is set to keep pods from their node (defaultEndpointToHostAction). info: no answer for another reason: a policy, or the node's own firewall.
skip: nobody to ask, or no pod on this node to ask from.`,
}

// FactDeclared is whether the pod declares the port that was asked.
const FactDeclared probe.Fact = "declared"

// unusedPort is TCP port multiplexing (RFC 1078), which nobody serves.
const unusedPort = 1

func podTCP(ctx context.Context, p *probe.Pass) {
	each([]func(context.Context, *probe.Pass){ownNode, otherPods}, func(ask func(context.Context, *probe.Pass)) {
		ask(ctx, p)
	})
}

func otherPods(ctx context.Context, p *probe.Pass) {
	targets := elsewhere(unique(p.Of(probe.KindPod, probe.KindLocal)))
	if len(targets) == 0 {
		p.Report(gap(p, probe.KindPod, "no other running workload pod is known"))
		return
	}
	each(targets, func(t probe.Target) {
		to := netip.AddrPortFrom(t.Addr, uint16(cmp.Or(t.Port, unusedPort)))
		c := connect(ctx, to)
		r := podAnswers(c.result(ctx), c, t.Port != 0)
		p.Report(about(r, t).On(t.String()).With(FactFamily, family(t.Addr)).With(probe.FactNode, t.Node).
			With(FactPort, int(to.Port())).With(FactDeclared, t.Port != 0))
	})
}

// podAnswers takes a refusal for what it is to a path: an answer.
func podAnswers(r probe.Result, c connection, declared bool) probe.Result {
	if r.Status != probe.Fail || c.reason() != "refused" {
		return r
	}
	r.Status = probe.OK
	r.Saw = fmt.Sprintf("reachable in %v (reset from unused port %d)", c.took.Round(10*time.Microsecond), c.to.Port())
	if declared {
		r.Status = probe.Info
		r.Saw = fmt.Sprintf("reachable in %v, but nothing listens on its port %d", c.took.Round(10*time.Microsecond),
			c.to.Port())
	}
	return r
}
