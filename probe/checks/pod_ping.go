package checks

import (
	"context"

	"github.com/calico-probe/calico-probe/probe"
)

// PodPing is the test that matters to users: does the pod network carry packets,
// to this node's own pods and to the others'?
var PodPing = &probe.Check{
	ID: probe.CheckPodPing, Asks: "do workload pods, here and on other nodes, answer a ping from this node and from inside a pod?", From: probe.FromNode, Inside: true, In: probe.Standard,
	Tags: []string{tagNetwork}, Access: []string{"host network", "NET_RAW", probe.AccessPods},
	Needs: []string{probe.CheckNodeUplink, probe.CheckPodUplink},
	Run: func(ctx context.Context, p *probe.Pass) {
		ping(ctx, p, elsewhere(unique(p.Of(probe.KindPod, probe.KindLocal))), probe.KindPod,
			"no other running workload pod is known")
	},
	Doc: `Five packets to a running workload pod on each of up to eight other nodes, and to some on this one, in every family the pod has: through the routes, tunnels and policy that pods use. Asked from the node, and again from inside one of this node's own pods.
ok: all came back. warn: some did. fail: none did. When node-ping is good and this is not, the pod network between the two nodes is broken: a route is missing, the tunnel is blocked, or the other node drops it.
When the node gets answers and the pod gets none, what is broken lies between that pod and its node: its veth, the route back to it, forwarding (node-sysctl) or policy. The other way round, the node sends from an address the other side has no way back to, such as a tunnel's.
A NetworkPolicy that forbids ICMP to that very pod, or from the pod that asks, also makes it fail; other pods then answer, and pod-tcp tells more.
unknown: no right to open an ICMP socket. skip: nobody to ask, or no pod on this node to ask from.`,
}
