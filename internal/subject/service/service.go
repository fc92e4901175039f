// Package service declares the checks of Services and the facts they report: cluster addresses, node ports and
// kube-proxy. Both binaries link it. Checks is the entry point. The package connects to nothing itself: package ask
// beside it does so on the node and inside pods, package api reads the Services, and package cause draws the
// conclusions. Package suite draws the whole flow.
package service

import (
	"time"

	"github.com/calico-probe/calico-probe/probe"
)

// Checks returns the checks of this subject in display order.
func Checks() []*probe.Check {
	return []*probe.Check{ServiceClusterIP, ServiceNodePort, ServiceDestination, KubeProxyHealth}
}

// KubeProxyHealth queries kube-proxy on its ports on the node. In the field it was wrongly the first suspect, and
// on-call could not rule it out.
var KubeProxyHealth = &probe.Check{
	ID: "kubeproxy-health", From: probe.FromNode,
	Tags:   []string{probe.TagNetwork, probe.TagService},
	Access: []string{"host network", "proc", "etc/kubernetes", "var/lib/kube-proxy"},
}

// TargetProxyCertificate is the target of kubeproxy-health's result about kube-proxy's client certificate.
const TargetProxyCertificate = "client certificate"

// FactPublished is a fact of kubeproxy-health.
const FactPublished probe.Fact = "services" // number of services in the kernel, by their virtual services or chains

// ReasonNotUp is the reason for a kube-proxy that runs but listens on no port.
const ReasonNotUp = "not-up"

// TargetServices is the target of kubeproxy-health's result about the rules that kube-proxy has written.
const TargetServices = "services"

// TargetProxySettings is the target of kubeproxy-health's result about the configuration that kube-proxy reports.
const TargetProxySettings = "settings"

// Facts of the result about kube-proxy's configuration.
const (
	FactProxyNode   probe.Fact = "proxy_node"  // the node's name in kube-proxy, if it differs
	FactMasquerades probe.Fact = "masquerades" // the setting that masquerades pods on their way to a Service
)

// ServiceClusterIP connects to Services through the rules that kube-proxy, or its replacement, has written on this
// node.
var ServiceClusterIP = &probe.Check{
	ID:   "service-clusterip",
	From: probe.FromNode, Inside: true, In: probe.Standard,
	Tags: []string{probe.TagNetwork, probe.TagService}, Access: []string{"host network", probe.AccessPods},
	Needs: []string{probe.CheckNodeUplink, probe.CheckPodUplink},
}

// ServiceDestination finds where the kernel really sends connections. In projectcalico/felix#1868, another agent's
// rule sent the API's address to a kubelet, and on-call saw only an x509 error.
var ServiceDestination = &probe.Check{
	ID:   "service-destination",
	From: probe.FromNode, In: probe.Standard, Limit: 8 * time.Second,
	Tags: []string{probe.TagNetwork, probe.TagService}, Access: []string{"host network", "netlink", "NET_ADMIN"},
}

// Facts of service-destination.
const (
	FactService probe.Fact = "service" // its address and port
	FactSentTo  probe.Fact = "sent_to" // the actual destination of its connections
	FactWall    probe.Fact = "wall"    // the firewall that has the rule: legacy iptables, iptables-nft, nftables
	FactHandle  probe.Fact = "handle"  // the rule's handle, or its position in a chain of legacy iptables
	FactMeans   probe.Fact = "means"   // how it redirects them: dnat, redirect, tproxy, route or left
)

// Values of FactMeans other than the Does words of package kernel.
const (
	MeansRoute = "route" // a route in the table local
	MeansLeft  = "left"  // a rule in iptables that an earlier kube-proxy left behind
)

// Reasons of service-destination if no foreign rule is to blame.
const (
	ReasonUntranslated = "untranslated" // no rule translates the service's address
	ReasonUntracked    = "untracked"    // the kernel has no conntrack entry for the connection, and nothing answered
	ReasonNoEndpoint   = "no-endpoint"  // kube-proxy's rules lead to an address that is not an endpoint
)

// ServiceNodePort connects to the same port of one Service on each node. In the field, a NodePort worked only on the
// node with the pod. kube-proxy was blamed, but the pod network was down.
var ServiceNodePort = &probe.Check{
	ID: "service-nodeport", From: probe.FromNode,
	In:   probe.Standard,
	Tags: []string{probe.TagNetwork, probe.TagService}, Access: []string{"host network"},
	Needs: []string{probe.CheckNodeUplink},
}
