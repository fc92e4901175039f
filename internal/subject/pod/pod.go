// Package pod names the checks of paths of pods: their gateway, uplink and packet sizes, and the facts they report.
// Both binaries link it.
package pod

import (
	"time"

	"github.com/calico-probe/calico-probe/probe"
)

// PodGateway asks whether the interfaces of pods are set so that packets come from them and go on
// (projectcalico/calico#4186).
var PodGateway = &probe.Check{
	ID: "pod-gateway", Asks: "does the node answer its pods at their gateway, and forward what they send?", From: probe.FromNode,
	Tags: []string{probe.TagNetwork, probe.TagCNI}, Access: []string{"proc", "host network", "netlink"},
	Doc: `A pod sends everything to the gateway 169.254.1.1, an address that nobody has: the node answers ARP for it in its place, for Felix sets proxy_arp of each interface of a pod (cali*). Felix does so once, when the pod comes; a tool that "hardens" the node, or sysctl --system with a file of its own, takes it back for all interfaces and the pods lose the gateway when their ARP entries expire.
Read are proxy_arp and forwarding of each cali* interface that is up, forwarding of the interface with the node's address and of Calico's tunnels, and disable_ipv6 where Calico has registered an IPv6 address. For proxy_arp the setting of "all" counts too. A bad value is read again after half a second: a pod that is just made has the kernel's own settings for a moment.
ok: as Felix sets them. fail: one is not. skip: there is no interface of a pod here, or they are not to be seen. While the node forwards nothing at all, forwarding is not asked of each: node-sysctl says it.`,
}

// Facts of pod-gateway.
const (
	FactSetting probe.Fact = "setting"  // its last word: proxy_arp, forwarding, disable_ipv6
	FactWanted  probe.Fact = "wanted"   // the value it should have
	FactWrongOn probe.Fact = "wrong_on" // list of the interfaces that have it wrong
)

// RoleOwnNode is the role of what pod-tcp asks of the node that the asking pod is on.
const RoleOwnNode = "own node"

// FactToHost is what Felix does with packets of pods to their own node that no policy is about, where that
// keeps them out: drop or reject.
const FactToHost probe.Fact = "to_host"

// PodMTU finds the packets that vanish for their size alone. Names resolve, pings
// answer, connections open, and hang with the first full packet.
var PodMTU = &probe.Check{
	ID: "pod-mtu", Asks: "do full-size packets reach workload pods on other nodes, from this node and from inside a pod?", From: probe.FromNode, Inside: true, In: probe.Standard,
	Tags: []string{probe.TagNetwork}, Access: []string{"host network", "NET_RAW", probe.AccessPods},
	Limit: 12 * time.Second, Needs: []string{probe.CheckNodeUplink, probe.CheckPodUplink, probe.CheckPodPing},
	Doc: `Echo requests that must not be fragmented, of the MTU of the interface or route to a workload pod on each of up to eight other nodes; if they are not answered, the check searches for the largest that are. Asked from the node, and again from inside one of this node's own pods, whose MTU is what counts for users.
ok: full-size packets pass. info: a router on the way reports a smaller path MTU, and such packets pass: TCP adapts to that, some programs over UDP do not. fail: small packets pass and larger ones are lost without an ICMP error: connections open, then hang with the first large transfer. Calico's tunnels add 20 bytes (IPIP), 50 (VXLAN, 70 over IPv6) or 60 (WireGuard, 80 over IPv6) of what the network between the nodes carries; usual reasons are that network's own lower limit (a VPN, a cloud's interconnect, another overlay), an interface Calico did not look at when it worked out the MTU (bonds, bridges and VLANs), or pods that are older than a change of the MTU.
info, too: full-size packets pass, and pings larger than the MTU, sent in fragments, are lost: programs over UDP lose what is larger than the MTU. A firewall of either node, the network between them or the network namespace of either pod drops fragments. Some clouds pass none.
unknown: not even small packets pass, see pod-ping; or no right to open a raw ICMP socket. skip: nobody to ask, or no pod on this node to ask from.`,
}

// PodPing is the test that matters to users: does the pod network carry packets,
// to this node's own pods and to the others'?
var PodPing = &probe.Check{
	ID: probe.CheckPodPing, Asks: "do workload pods, here and on other nodes, answer a ping from this node and from inside a pod?", From: probe.FromNode, Inside: true, In: probe.Standard,
	Tags: []string{probe.TagNetwork}, Access: []string{"host network", "NET_RAW", probe.AccessPods},
	Needs: []string{probe.CheckNodeUplink, probe.CheckPodUplink},
	Doc: `Five packets to a running workload pod on each of up to eight other nodes, and to some on this one, in every family the pod has: through the routes, tunnels and policy that pods use. Asked from the node, and again from inside one of this node's own pods.
ok: all came back. Where some did not, fifty more measure how many: fail from one in ten on, else warn. fail: none did. When node-ping is good and this is not, the pod network between the two nodes is broken: a route is missing, the tunnel is blocked, or the other node drops it.
When the node gets answers and the pod gets none, what is broken lies between that pod and its node: its veth, the route back to it, forwarding (node-sysctl) or policy. The other way round, the node sends from an address the other side has no way back to, such as a tunnel's.
A NetworkPolicy that forbids ICMP to that very pod, or from the pod that asks, also makes it fail; other pods then answer, and pod-tcp tells more.
unknown: no right to open an ICMP socket. skip: nobody to ask, or no pod on this node to ask from.`,
}

// PodTCP asks what users' programs do and a ping does not: where ICMP comes
// through and TCP hangs, a checksum that some driver or tunnel gets wrong is
// the usual reason.
var PodTCP = &probe.Check{
	ID: "pod-tcp", Asks: "do workload pods, here and on other nodes, answer TCP from this node and from inside a pod?", From: probe.FromNode, Inside: true, In: probe.Standard,
	Tags: []string{probe.TagNetwork}, Access: []string{"host network", probe.AccessPods},
	Needs: []string{probe.CheckNodeUplink, probe.CheckPodUplink},
	Doc: `A TCP connection to a running workload pod on each of up to eight other nodes, and to some on this one: to a port the pod declares, or to an unused one if it declares none. It is opened and closed, without sending data. Asked from the node, and again from inside one of this node's own pods.
ok: it was accepted, or reset from a port that the pod does not declare: the reset came from the pod, so the path is good. info: refused on a declared port: the path is good but nothing listens there. fail, timeout: packets are lost; when pod-ping to the same pod is good, this is the mark of broken checksums (a NIC's or VXLAN's offload), of a firewall, or of policy that lets ICMP through. fail, rejected: a firewall on the way says no by ICMP, and which machine it was; Calico's own policy drops without a word unless it was told to reject. fail, net-unreachable, host-unreachable, blackhole: no route, here or where the ICMP message came from.
A NetworkPolicy that allows neither this node nor the asking pod to that very pod makes it fail too; pods of other namespaces then answer.
own node, from inside a pod: the port of the kubelet on the node that it is on. warn: no answer, and Felix is set to keep pods from their node (defaultEndpointToHostAction). info: no answer for another reason: a policy, or the node's own firewall.
skip: nobody to ask, or no pod on this node to ask from.`,
}

// FactDeclared is whether the pod declares the port that was asked.
const FactDeclared probe.Fact = "declared"

// PodUplink asks whether packets can leave the pod that the others are asked from:
// one pod's cable that is out is not a cluster's outage.
var PodUplink = &probe.Check{
	ID: probe.CheckPodUplink, Asks: "can packets leave the workload pod that is asked from?", From: probe.FromPod,
	In:   probe.Standard,
	Tags: []string{probe.TagNetwork, probe.TagCNI}, Access: []string{"netlink", probe.AccessPods},
	Doc: `Looked at inside the network namespaces of two of this node's workload pods, where there are two: the interface with the pod's address, and whether there is a default route. What other checks ask from inside pods needs it.
ok: up, with a carrier and a default route. fail: the interface is switched off, or has no carrier because its other end, a cali* interface of the node, is down or gone; or there is no default route, so the CNI plugin has not done its work. warn: so it is in one pod, and the other one is well; or a firewall rule in the pod's namespace redirects its connections to a port where nothing listens, as a service mesh leaves it whose proxy is gone.
skip: no pod on this node to ask from, or none that can be entered.`,
}
