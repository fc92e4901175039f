// Package pod names the checks of paths of pods: their gateway, uplink and packet sizes, and the facts they report.
// Both binaries link it.
package pod

import (
	"time"

	"github.com/calico-probe/calico-probe/probe"
)

// Checks are the checks of this subject, in the order in which they are shown.
func Checks() []*probe.Check {
	return []*probe.Check{PodUplink, PodPing, PodTCP, PodMTU, PodGateway}
}

// PodGateway asks whether the interfaces of pods are set so that packets come from them and go on
// (projectcalico/calico#4186).
var PodGateway = &probe.Check{
	ID: "pod-gateway", From: probe.FromNode,
	Tags: []string{probe.TagNetwork, probe.TagCNI}, Access: []string{"proc", "host network", "netlink"},
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
	ID: "pod-mtu", From: probe.FromNode, Inside: true, In: probe.Standard,
	Tags: []string{probe.TagNetwork}, Access: []string{"host network", "NET_RAW", probe.AccessPods},
	Limit: 12 * time.Second, Needs: []string{probe.CheckNodeUplink, probe.CheckPodUplink, probe.CheckPodPing},
}

// PodPing is the test that matters to users: does the pod network carry packets,
// to this node's own pods and to the others'?
var PodPing = &probe.Check{
	ID: probe.CheckPodPing, From: probe.FromNode, Inside: true, In: probe.Standard,
	Tags: []string{probe.TagNetwork}, Access: []string{"host network", "NET_RAW", probe.AccessPods},
	Needs: []string{probe.CheckNodeUplink, probe.CheckPodUplink},
}

// PodTCP asks what users' programs do and a ping does not: where ICMP comes
// through and TCP hangs, a checksum that some driver or tunnel gets wrong is
// the usual reason.
var PodTCP = &probe.Check{
	ID: "pod-tcp", From: probe.FromNode, Inside: true, In: probe.Standard,
	Tags: []string{probe.TagNetwork}, Access: []string{"host network", probe.AccessPods},
	Needs: []string{probe.CheckNodeUplink, probe.CheckPodUplink},
}

// FactDeclared is whether the pod declares the port that was asked.
const FactDeclared probe.Fact = "declared"

// PodUplink asks whether packets can leave the pod that the others are asked from:
// one pod's cable that is out is not a cluster's outage.
var PodUplink = &probe.Check{
	ID: probe.CheckPodUplink, From: probe.FromPod,
	In:   probe.Standard,
	Tags: []string{probe.TagNetwork, probe.TagCNI}, Access: []string{"netlink", probe.AccessPods},
}
