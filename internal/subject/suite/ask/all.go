// Package ask joins the checks with what answers them on a node. The probe links it, the client never: with it come
// the clients of container runtimes, of DNS and of the kernel.
package ask

import (
	bgpask "github.com/calico-probe/calico-probe/internal/subject/bgp/ask"
	cniask "github.com/calico-probe/calico-probe/internal/subject/cni/ask"
	datastoreask "github.com/calico-probe/calico-probe/internal/subject/datastore/ask"
	dnsask "github.com/calico-probe/calico-probe/internal/subject/dns/ask"
	felixask "github.com/calico-probe/calico-probe/internal/subject/felix/ask"
	firewallask "github.com/calico-probe/calico-probe/internal/subject/firewall/ask"
	hostask "github.com/calico-probe/calico-probe/internal/subject/host/ask"
	kubeletask "github.com/calico-probe/calico-probe/internal/subject/kubelet/ask"
	linkask "github.com/calico-probe/calico-probe/internal/subject/link/ask"
	nodestateask "github.com/calico-probe/calico-probe/internal/subject/nodestate/ask"
	overlayask "github.com/calico-probe/calico-probe/internal/subject/overlay/ask"
	podask "github.com/calico-probe/calico-probe/internal/subject/pod/ask"
	routeask "github.com/calico-probe/calico-probe/internal/subject/route/ask"
	runtimeask "github.com/calico-probe/calico-probe/internal/subject/runtime/ask"
	serviceask "github.com/calico-probe/calico-probe/internal/subject/service/ask"
	startask "github.com/calico-probe/calico-probe/internal/subject/start/ask"
	"github.com/calico-probe/calico-probe/internal/subject/suite"
	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/probe/logs"
)

// All lists the checks of a node with what answers them, in the suite's order.
func All() []*probe.Check {
	answered := map[string]*probe.Check{}
	for _, c := range []*probe.Check{
		felixask.FelixLive, felixask.FelixReady, bgpask.BirdSocket, bgpask.BGPSession, bgpask.BirdConfig, bgpask.BGPExpected,
		linkask.NodeUplink, linkask.NodePing, podask.PodUplink, podask.PodPing, podask.PodTCP, podask.PodMTU,
		serviceask.ServiceClusterIP, serviceask.ServiceNodePort, serviceask.ServiceDestination,
		routeask.RouteCanReach, routeask.RouteBlocks, routeask.RoutePods, routeask.RouteRules, routeask.RouteSpecial,
		podask.PodGateway, routeask.XFRMPolicies, routeask.Untracked,
		overlayask.OverlayTunnels, overlayask.IPSetHosts, cniask.CNIMTU,
		firewallask.NodeFirewall, linkask.IPAutodetect, bgpask.BGPPort,
		datastoreask.DatastoreLatency, startask.StartupBudget, datastoreask.TyphaReach,
		dnsask.DNSCluster, dnsask.DNSExternal,
		runtimeask.ContainerdHealth, runtimeask.CRIHealth, runtimeask.DockerHealth, runtimeask.RuntimeGhosts,
		kubeletask.KubeletHealth, serviceask.KubeProxyHealth,
		startask.InitStall, cniask.IPAMFiles, cniask.CNIConfig, cniask.CNINodename, cniask.CNIToken, cniask.CNIServer,
		logs.CalicoLog, logs.CalicoErrors, logs.KubeLog, logs.DaemonLog, hostask.KernelLog,
		hostask.NodeSwap, hostask.NodeLoad, hostask.NodeMemory, hostask.NodeDisk, hostask.NodeClock,
		firewallask.NodeConntrack, linkask.NodeSysctl, linkask.NodeNeighbours, hostask.NodeLimits,
		nodestateask.NodeState,
		overlayask.EncapProof, firewallask.PacketDrops, linkask.NeighbourReach,
	} {
		answered[c.ID] = c
	}
	var out []*probe.Check
	for _, c := range suite.Node() {
		if runs := answered[c.ID]; runs != nil {
			out = append(out, runs)
		}
	}
	return out
}
