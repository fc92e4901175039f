package checks

import (
	"context"

	"github.com/calico-probe/calico-probe/probe"
)

// PodPing is the test that matters to users: does the pod network carry packets
// from this node to the others?
var PodPing = &probe.Check{
	ID: "pod-ping", Asks: "do workload pods on other nodes answer a ping from this node?", From: probe.FromNode,
	Tags: []string{tagNetwork, tagBGP}, Access: []string{"host network", "NET_RAW"},
	Run: func(ctx context.Context, p *probe.Pass) {
		ping(ctx, p, unique(p.Of(probe.KindPod)), probe.KindPod, "no running workload pod on another node is known")
	},
	Doc: `Five packets to a running workload pod on each of up to eight other nodes, in every family the pod has: through the routes, tunnels and policy that pods use.
ok: all came back. warn: some did. fail: none did. When node-ping is good and this is not, the pod network between the two nodes is broken: a route is missing, the tunnel is blocked, or the other node drops it.
A NetworkPolicy that forbids ICMP to that very pod also makes it fail; other pods then answer.
unknown: no right to open an ICMP socket.`,
}
