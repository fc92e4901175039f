// Package nodestate names the checks of the node's settings, for comparison with a baseline node, and the facts they
// report. Both binaries link it.
package nodestate

import (
	"time"

	"github.com/calico-probe/calico-probe/probe"
)

// NodeState says how a node is set, so that it can be compared with one that works.
var NodeState = &probe.Check{
	ID: "node-state", Asks: "how is the node set, in what could make it behave unlike another?", From: probe.FromNode,
	Tags: []string{probe.TagHost}, In: probe.Deep, Limit: 10 * time.Second,
	Access: []string{"host network", "netlink", "proc", "host processes", "NET_ADMIN", "SYS_PTRACE", "run", "uid 0",
		"etc/cni/net.d", "opt/cni/bin", "var/lib", "etc/resolv.conf"},
	Doc: `It judges nothing. Its answers are what "calico-probe run" compares with a baseline node when something is bad and no proven cause explains it: what differs is named under "compared with", and where it can touch what fails, the cause node-differs names it.
info, one for each area, in parts where it is long: sysctls of the network (interfaces of pods as one group, cali*), interfaces, special and static routes, permanent neighbour entries, routing rules, IPsec (XFRM) policies, chains and rules of firewalls that are neither Calico's nor kube-proxy's, queueing and programs on interfaces, the kubelet's, the runtime's and kube-proxy's configuration, limits of their processes, types and modes of the paths Calico needs, programs that change the network too, calico-node's environment as it runs, resolv.conf, the kernel. What belongs to the node alone (its name, addresses, MAC addresses) stands as <node>, <address>, <mac>; secrets are left out; a long value is cut, with a sum of the whole.
skip: this access method does not show that area, the node has none, or it could not be read.`,
}

// Facts of node-state.
const (
	FactItems   probe.Fact = "items"    // name → value of what the area has
	FactArea    probe.Fact = "area"     // one of the Area words
	FactLeftOut probe.Fact = "left_out" // how many items there was no room for
)

// The areas of node-state.
const (
	AreaSystem     = "system"
	AreaSysctls    = "sysctls"
	AreaInterfaces = "interfaces"
	AreaRoutes     = "routes"
	AreaNeighbours = "neighbours"
	AreaRules      = "routing-rules"
	AreaIPsec      = "ipsec"
	AreaFirewall   = "firewall"
	AreaQueues     = "queues"
	AreaKubelet    = "kubelet"
	AreaRuntime    = "runtime"      // as containerd says that it runs
	AreaContainerd = "runtime-file" // as its file has it
	AreaProxy      = "kube-proxy"
	AreaLimits     = "limits"
	AreaPaths      = "paths"
	AreaProcesses  = "processes"
	AreaCalico     = "calico-node"
	AreaResolver   = "resolver"
)
