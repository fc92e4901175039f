// Package nodestate names the checks of the node's settings, for comparison with a baseline node, and the facts they
// report. Both binaries link it.
package nodestate

import (
	"time"

	"github.com/calico-probe/calico-probe/probe"
)

// Checks are the checks of this subject, in the order in which they are shown.
func Checks() []*probe.Check {
	return []*probe.Check{NodeState}
}

// NodeState says how a node is set, so that it can be compared with one that works.
var NodeState = &probe.Check{
	ID: "node-state", From: probe.FromNode,
	Tags: []string{probe.TagHost}, In: probe.Deep, Limit: 10 * time.Second,
	Access: []string{"host network", "netlink", "proc", "host processes", "NET_ADMIN", "SYS_PTRACE", "run", "uid 0",
		"etc/cni/net.d", "opt/cni/bin", "var/lib", "etc/resolv.conf"},
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
