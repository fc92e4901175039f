package checks

import (
	"context"

	"github.com/calico-probe/calico-probe/probe"
)

// NodePing asks whether the other machines are there at all, apart from
// anything Calico does.
var NodePing = &probe.Check{
	ID: "node-ping", Asks: "do the other nodes answer a ping?", From: probe.FromNode,
	Tags: []string{tagNetwork}, Access: []string{"host network", "NET_RAW"}, Needs: []string{probe.CheckNodeUplink},
	Run: func(ctx context.Context, p *probe.Pass) {
		ping(ctx, p, unique(p.Of(probe.KindNode, probe.KindPeer)), probe.KindNode, "no other node is known")
	},
	Doc: `Five packets (three in a quick run) to each address of up to eight other nodes: their InternalIPs, and the address Calico registered for them where that is another one.
ok: all came back. warn: some did; or several nodes were asked and not one answered, which is how it looks where a network lets no ping through. warn: none did, and the machine answers at TCP 10250: ping is switched off there (icmp_echo_ignore_all), or blocked. fail: none did, while others answer or there is only this one, and what came instead: no route on this node, a router's refusal, the node's own firewall.
An address Calico registered that does not answer while the InternalIP does is the wrong NIC, picked by autodetection. Some clouds drop all ICMP: then nobody answers here while pod-ping and bgp-session are good.
unknown: no right to open an ICMP socket.`,
}
