// Package service names the checks of Services: cluster addresses, node ports and kube-proxy, and the facts they
// report. Both binaries link it.
package service

import (
	"time"

	"github.com/calico-probe/calico-probe/probe"
)

// Checks are the checks of this subject, in the order in which they are shown.
func Checks() []*probe.Check {
	return []*probe.Check{ServiceClusterIP, ServiceNodePort, ServiceDestination, KubeProxyHealth}
}

// KubeProxyHealth asks kube-proxy on the ports it has on the node. In the field
// it was the first suspect, wrongly, and nobody could show that it was fine.
var KubeProxyHealth = &probe.Check{
	ID: "kubeproxy-health", From: probe.FromNode,
	Tags: []string{probe.TagNetwork, probe.TagService}, Access: []string{"host network", "proc"},
}

// Facts of kubeproxy-health.
const FactPublished probe.Fact = "services" // count of services in the kernel, by their virtual services or chains

// ReasonNotUp is a kube-proxy that runs and listens nowhere.
const ReasonNotUp = "not-up"

// TargetServices is kubeproxy-health's answer about what it has written.
const TargetServices = "services"

// TargetProxySettings is kubeproxy-health's answer about what kube-proxy says that it is set to.
const TargetProxySettings = "settings"

// Facts of that answer.
const (
	FactProxyNode   probe.Fact = "proxy_node"  // the name that kube-proxy has for its node, where it is another
	FactMasquerades probe.Fact = "masquerades" // the setting by which pods are masqueraded on their way to a Service
)

// ServiceClusterIP asks for what kube-proxy, or what stands in for it, has made of
// services on this very node.
var ServiceClusterIP = &probe.Check{
	ID:   "service-clusterip",
	From: probe.FromNode, Inside: true, In: probe.Standard,
	Tags: []string{probe.TagNetwork, probe.TagService}, Access: []string{"host network", probe.AccessPods},
	Needs: []string{probe.CheckNodeUplink, probe.CheckPodUplink},
}

// ServiceDestination asks where connections really go (projectcalico/felix#1868: a rule of another agent sent the API's
// address to a kubelet, and what on-call saw was an x509 error).
var ServiceDestination = &probe.Check{
	ID:   "service-destination",
	From: probe.FromNode, In: probe.Standard, Limit: 8 * time.Second,
	Tags: []string{probe.TagNetwork, probe.TagService}, Access: []string{"host network", "netlink", "NET_ADMIN"},
}

// Facts of service-destination.
const (
	FactService probe.Fact = "service" // its address and port
	FactSentTo  probe.Fact = "sent_to" // where the kernel really sends connections for it
	FactWall    probe.Fact = "wall"    // the firewall that has the rule: legacy iptables, iptables-nft, nftables
	FactHandle  probe.Fact = "handle"  // the rule's number there, or its place in a chain of legacy iptables
	FactMeans   probe.Fact = "means"   // how it sends them: dnat, redirect, tproxy or route
)

// MeansRoute is a route in the table local; the others are the kernel's Does words.
const MeansRoute = "route"

// Reasons of service-destination where no rule of others is in the way.
const (
	ReasonUntranslated = "untranslated" // no rule translates the service's address
	ReasonNoEndpoint   = "no-endpoint"  // kube-proxy's rules lead to an address that is no endpoint
)

// ServiceNodePort asks one service at the same port of every node. In the field a NodePort
// worked on the node that had the pod and on no other, and kube-proxy was blamed
// for a pod network that was down.
var ServiceNodePort = &probe.Check{
	ID: "service-nodeport", From: probe.FromNode,
	In:   probe.Standard,
	Tags: []string{probe.TagNetwork, probe.TagService}, Access: []string{"host network"},
	Needs: []string{probe.CheckNodeUplink},
}
