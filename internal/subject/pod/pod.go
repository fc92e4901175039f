// Package pod declares the checks of pods' paths and the facts they report: their gateway, uplink and packet sizes.
// Both binaries link it. Checks is the entry point. The package sends nothing itself: package ask beside it does so on
// the node and inside pods, package api reads the pods' status, and package cause draws the conclusions. Package suite
// draws the whole flow.
package pod

import (
	"time"

	"github.com/calico-probe/calico-probe/probe"
)

// Checks returns the checks of this subject in display order.
func Checks() []*probe.Check {
	return []*probe.Check{PodUplink, PodPing, PodTCP, PodMTU, PodGateway}
}

// PodGateway checks the settings of the host end of each pod's interface. With wrong settings, the node does not answer
// ARP for the pods' gateway, or does not forward their packets (projectcalico/calico#4186).
var PodGateway = &probe.Check{
	ID: "pod-gateway", From: probe.FromNode,
	Tags: []string{probe.TagNetwork, probe.TagCNI}, Access: []string{"proc", "host network", "netlink"},
}

// Facts of pod-gateway.
const (
	FactSetting probe.Fact = "setting"  // last part of the sysctl's name: proxy_arp, forwarding, disable_ipv6
	FactWanted  probe.Fact = "wanted"   // the value it should have
	FactWrongOn probe.Fact = "wrong_on" // list of the interfaces with a wrong value
)

// RoleOwnNode is the role of pod-tcp's result about a connection from a pod to its own node.
const RoleOwnNode = "own node"

// FactToHost is Felix's setting for packets from pods to their own node that match no policy
// (DefaultEndpointToHostAction), if that blocks them: drop or reject.
const FactToHost probe.Fact = "to_host"

// PodMTU finds packets that are lost because of their size. Names resolve, pings succeed and connections open, but
// connections hang with the first full packet.
var PodMTU = &probe.Check{
	ID: "pod-mtu", From: probe.FromNode, Inside: true, In: probe.Standard,
	Tags: []string{probe.TagNetwork}, Access: []string{"host network", "NET_RAW", probe.AccessPods},
	Limit: 12 * time.Second, Needs: []string{probe.CheckNodeUplink, probe.CheckPodUplink, probe.CheckPodPing},
}

// PodPing checks what matters to users: does the pod network deliver packets to this node's pods and to pods of other
// nodes?
var PodPing = &probe.Check{
	ID: probe.CheckPodPing, From: probe.FromNode, Inside: true, In: probe.Standard,
	Tags: []string{probe.TagNetwork}, Access: []string{"host network", "NET_RAW", probe.AccessPods},
	Needs: []string{probe.CheckNodeUplink, probe.CheckPodUplink},
}

// PodTCP opens connections, as users' programs do. If ICMP passes and TCP hangs, the usual reason is a checksum that a
// driver or tunnel computes wrongly.
var PodTCP = &probe.Check{
	ID: "pod-tcp", From: probe.FromNode, Inside: true, In: probe.Standard,
	Tags: []string{probe.TagNetwork}, Access: []string{"host network", probe.AccessPods},
	Needs: []string{probe.CheckNodeUplink, probe.CheckPodUplink},
}

// FactDeclared is whether the pod declares the port to which the check connected.
const FactDeclared probe.Fact = "declared"

// PodUplink checks whether packets can leave the pod in which the other checks run. One pod's broken link is not a
// cluster outage.
var PodUplink = &probe.Check{
	ID: probe.CheckPodUplink, From: probe.FromPod,
	In:   probe.Standard,
	Tags: []string{probe.TagNetwork, probe.TagCNI}, Access: []string{"netlink", probe.AccessPods},
}
