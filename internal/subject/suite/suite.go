// Package suite has the one ordered list of the checks that are asked on a node. Both binaries show and ask them in
// this order; what answers them is in the ask packages, which the probe alone links.
package suite

import (
	"github.com/calico-probe/calico-probe/internal/subject/bgp"
	"github.com/calico-probe/calico-probe/internal/subject/cni"
	"github.com/calico-probe/calico-probe/internal/subject/datastore"
	"github.com/calico-probe/calico-probe/internal/subject/dns"
	"github.com/calico-probe/calico-probe/internal/subject/felix"
	"github.com/calico-probe/calico-probe/internal/subject/firewall"
	"github.com/calico-probe/calico-probe/internal/subject/host"
	"github.com/calico-probe/calico-probe/internal/subject/kubelet"
	"github.com/calico-probe/calico-probe/internal/subject/link"
	"github.com/calico-probe/calico-probe/internal/subject/nodestate"
	"github.com/calico-probe/calico-probe/internal/subject/overlay"
	"github.com/calico-probe/calico-probe/internal/subject/pod"
	"github.com/calico-probe/calico-probe/internal/subject/route"
	"github.com/calico-probe/calico-probe/internal/subject/runtime"
	"github.com/calico-probe/calico-probe/internal/subject/service"
	"github.com/calico-probe/calico-probe/internal/subject/start"
	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/probe/logs"
)

// Node lists the checks of a node in the order in which they are shown: from what Calico does on the node, over the
// paths that depend on it, to the node below. What a check needs is named by its Needs and not by this order.
func Node() []*probe.Check {
	return []*probe.Check{
		// Felix, then BIRD and what it was given: the first question about a node is whether they live.
		felix.FelixLive, felix.FelixReady, bgp.BirdSocket, bgp.BGPSession, bgp.BirdConfig, bgp.BGPExpected,
		// Paths from the node and from its pods: the uplink first, because the others need it.
		link.NodeUplink, link.NodePing, pod.PodUplink, pod.PodPing, pod.PodTCP, pod.PodMTU,
		// Services: they need those paths.
		service.ServiceClusterIP, service.ServiceNodePort, service.ServiceDestination,
		// What the kernel does with packets, which explains the paths: routes, rules, interfaces, IPsec, conntrack.
		route.RouteCanReach, route.RouteBlocks, route.RoutePods, route.RouteRules, route.RouteSpecial, pod.PodGateway,
		route.XFRMPolicies, route.Untracked,
		// Tunnels and packet sizes.
		overlay.OverlayTunnels, overlay.IPSetHosts, cni.CNIMTU,
		// The firewall, the node's address, and the port of BGP, which both of them can close.
		firewall.NodeFirewall, link.IPAutodetect, bgp.BGPPort,
		// What calico-node needs to start and to stay up to date.
		datastore.DatastoreLatency, start.StartupBudget, datastore.TyphaReach,
		// Names: they need Services.
		dns.DNSCluster, dns.DNSExternal,
		// Runtimes, the kubelet and kube-proxy.
		runtime.ContainerdHealth, runtime.CRIHealth, runtime.DockerHealth, runtime.RuntimeGhosts, kubelet.KubeletHealth,
		service.KubeProxyHealth,
		// Init containers of calico-node, and the files that they write for the CNI plugin.
		start.InitStall, cni.IPAMFiles, cni.CNIConfig, cni.CNINodename, cni.CNIToken, cni.CNIServer,
		// What components and the kernel logged.
		logs.CalicoLog, logs.CalicoErrors, logs.KubeLog, logs.DaemonLog, host.KernelLog,
		// The machine.
		host.NodeSwap, host.NodeLoad, host.NodeMemory, host.NodeDisk, host.NodeClock, firewall.NodeConntrack,
		link.NodeSysctl, link.NodeNeighbours, host.NodeLimits,
		// For comparison with a baseline node: it judges nothing.
		nodestate.NodeState,
		// Last, what takes long or needs a second probe.
		overlay.EncapProof, firewall.PacketDrops, link.NeighbourReach,
	}
}
