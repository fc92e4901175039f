// Package dns declares the checks of name resolution and the facts they report: cluster DNS, and the node's resolvers.
// Both binaries link it. Checks is the entry point. The package sends no query itself: package ask beside it does so on
// the node and in pods, and package cause draws the conclusions. Package suite draws the whole flow.
package dns

import (
	"time"

	"github.com/calico-probe/calico-probe/probe"
)

// Checks returns the checks of this subject in display order.
func Checks() []*probe.Check {
	return []*probe.Check{DNSCluster, DNSExternal}
}

// FactOfService lists the addresses of the queried Service, if the answer has only other addresses.
const FactOfService probe.Fact = "of_service"

// DNSCluster queries the cluster DNS like pods on this node, and then each server behind it. To users, a broken service
// path and a broken server look the same.
var DNSCluster = &probe.Check{
	ID: probe.CheckDNSCluster, From: probe.FromNode, Inside: true, In: probe.Standard,
	Tags:   []string{probe.TagNetwork, probe.TagDNS},
	Access: []string{"host network", "etc/resolv.conf", "var/lib/kubelet/config.yaml", probe.AccessPods},
	Needs:  []string{probe.CheckNodeUplink, probe.CheckPodUplink}, Limit: 8 * time.Second,
}

// Facts of the DNS checks.
const (
	FactQuestion probe.Fact = "question" // the name in the query

	FactGiven     probe.Fact = "given"      // list of the name servers that the kubelet configures in pods
	FactOtherZone probe.Fact = "other_zone" // a name in another namespace that the same server resolves
	FactUnserved  probe.Fact = "unserved"   // why the Service has no ready endpoint
	FactLoopback  probe.Fact = "loopback"   // a loopback address among the name servers that CoreDNS gets from the kubelet
)

// TargetUpstream is the target of the result about the file from which the kubelet copies name servers into pods such
// as CoreDNS (dnsPolicy Default).
const TargetUpstream = "name servers for CoreDNS"

// ReasonUnset is the reason if the kubelet configures no cluster DNS server in pods.
const ReasonUnset = "unset"

// DNSExternal resolves a name outside the cluster. If the node's name servers answer but the cluster DNS does not
// forward to them, pods reach only each other.
var DNSExternal = &probe.Check{
	ID: "dns-external", From: probe.FromNode, Inside: true, In: probe.Standard,
	Tags:   []string{probe.TagNetwork, probe.TagDNS},
	Access: []string{"host network", "etc/resolv.conf", "var/lib/kubelet/config.yaml", probe.AccessPods},
	Needs:  []string{probe.CheckNodeUplink, probe.CheckPodUplink, probe.CheckDNSCluster},
	Limit:  10 * time.Second,
}
