// Package nodestate declares the check node-state, which records a node's settings and judges none:
//
//	ask (on this node, and on a baseline node) -> items of each area -> diff (in the client) -> cause
//
// Both binaries link the package. Checks is the entry point. Package ask beside it reads the node, package diff
// compares two nodes, and package cause names the differences that explain a fault. Package suite draws the whole flow.
package nodestate

import (
	"time"

	"github.com/calico-probe/calico-probe/probe"
)

// Checks returns the checks of this subject in display order.
func Checks() []*probe.Check {
	return []*probe.Check{NodeState}
}

// NodeState records the settings of a node, so that the client can compare them with those of a healthy node.
var NodeState = &probe.Check{
	ID: "node-state", From: probe.FromNode,
	Tags: []string{probe.TagHost}, In: probe.Deep, Limit: 10 * time.Second,
	Access: []string{"host network", "netlink", "proc", "host processes", "NET_ADMIN", "SYS_PTRACE", "run", "uid 0",
		"etc/cni/net.d", "opt/cni/bin", "var/lib", "etc/resolv.conf"},
}

// Facts of node-state.
const (
	FactItems   probe.Fact = "items"    // name → value of each setting in the area
	FactArea    probe.Fact = "area"     // one of the Area words
	FactLeftOut probe.Fact = "left_out" // number of items that did not fit
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
	AreaRuntime    = "runtime"      // as containerd reports its running configuration
	AreaContainerd = "runtime-file" // as its file configures it
	AreaProxy      = "kube-proxy"
	AreaLimits     = "limits"
	AreaPaths      = "paths"
	AreaProcesses  = "processes"
	AreaCalico     = "calico-node"
	AreaResolver   = "resolver"
)
