// Package dns names the checks of name resolution: cluster DNS and the node's resolvers, and the facts they report.
// Both binaries link it.
package dns

import (
	"time"

	"github.com/calico-probe/calico-probe/probe"
)

// Checks are the checks of this subject, in the order in which they are shown.
func Checks() []*probe.Check {
	return []*probe.Check{DNSCluster, DNSExternal}
}

// FactOfService is the list of addresses that the Service of the name has, where the answer has none of them.
const FactOfService probe.Fact = "of_service"

// DNSCluster asks the cluster's DNS as pods on this node do, and every server
// behind it: a broken service path and a broken server look the same to users.
var DNSCluster = &probe.Check{
	ID: probe.CheckDNSCluster, From: probe.FromNode, Inside: true, In: probe.Standard,
	Tags:   []string{probe.TagNetwork, probe.TagDNS},
	Access: []string{"host network", "var/lib/kubelet/config.yaml", probe.AccessPods},
	Needs:  []string{probe.CheckNodeUplink, probe.CheckPodUplink}, Limit: 8 * time.Second,
}

// Facts of the DNS checks.
const (
	FactQuestion probe.Fact = "question" // the name asked for

	FactGiven     probe.Fact = "given"      // list of the name servers that the kubelet gives to pods
	FactOtherZone probe.Fact = "other_zone" // a name of another namespace that the same server resolves
	FactUnserved  probe.Fact = "unserved"   // why nothing is behind the service, where it has no ready endpoint
)

// ReasonUnset is the reason where the kubelet gives pods no name server of the cluster's.
const ReasonUnset = "unset"

// DNSExternal asks beyond the cluster: where the node's own name servers answer
// and the cluster's DNS does not pass questions on to them, pods reach each other
// and nothing else.
var DNSExternal = &probe.Check{
	ID: "dns-external", From: probe.FromNode, Inside: true, In: probe.Standard,
	Tags:   []string{probe.TagNetwork, probe.TagDNS},
	Access: []string{"host network", "etc/resolv.conf", "var/lib/kubelet/config.yaml", probe.AccessPods},
	Needs:  []string{probe.CheckNodeUplink, probe.CheckPodUplink, probe.CheckDNSCluster},
	Limit:  10 * time.Second,
}
