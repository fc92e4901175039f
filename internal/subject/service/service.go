// Package service names the checks of Services: cluster addresses, node ports and kube-proxy, and the facts they
// report. Both binaries link it.
package service

import (
	"time"

	"github.com/calico-probe/calico-probe/probe"
)

// KubeProxyHealth asks kube-proxy on the ports it has on the node. In the field
// it was the first suspect, wrongly, and nobody could show that it was fine.
var KubeProxyHealth = &probe.Check{
	ID: "kubeproxy-health", Asks: "does kube-proxy run, and in which mode?", From: probe.FromNode,
	Tags: []string{probe.TagNetwork, probe.TagService}, Access: []string{"host network", "proc"},
	Doc: `kube-proxy answers 10256/livez (before Kubernetes 1.28: /healthz, which later also says 503 while the Node is being deleted), with 200 as long as it has updated its rules lately, and tells its mode and its settings on 127.0.0.1:10249.
ok: healthy, and the mode it says; about its services: what it has written into the kernel in this mode is there, and how much. info, of its services: some virtual services of ipvs have no destination, as a service without ready pods has; each of its NodePorts is one of them, and a dead one shows here. fail, 503: it has not updated its rules for a while: it cannot reach the API server, or rules take too long. fail, no answer: it is frozen. fail, of its services: it calls itself healthy, and the kernel has nothing of it, or no destination for any service: somebody flushed the rules (a restart of nftables or firewalld does), and no service works from this node until it writes them again: in the mode iptables it notices within a minute, in the others perhaps not before some service changes.
warn: nothing listens, and rules of kube-proxy's are in the kernel: it has died, and they send to pods as they were then; or it was removed and they were left; or it is set to answer elsewhere. warn: it runs for more than 20 s and listens on no port at all: it does not get through its start, and rules of the run before are in the kernel. info: the same, with a process of that name on the node, or with the eBPF data plane.
warn, of its settings: hostnameOverride is not the node's name, so no endpoint is local to it and what comes to a Service with policy Local is dropped. info, of its settings: masqueradeAll is on, or clusterCIDR does not have the pods' addresses, so that a policy which lets pods in by their labels does not know those that come through a Service.
info, of its services: it runs, and Felix's eBPF data plane takes its rules away (bpfKubeProxyIptablesCleanupEnabled): that is meant so.
skip: nothing listens, and no rules are seen: there is no kube-proxy on this node, as with Calico's eBPF data plane, k3s, or another replacement. Rules of iptables and nftables are seen only with the capability NET_ADMIN; virtual services of ipvs always. Whether services work is for datastore-latency and dns-cluster to say.`,
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
	ID: "service-clusterip", Asks: "do services answer at their cluster IPs, from this node and from inside a pod?",
	From: probe.FromNode, Inside: true, In: probe.Standard,
	Tags: []string{probe.TagNetwork, probe.TagService}, Access: []string{"host network", probe.AccessPods},
	Needs: []string{probe.CheckNodeUplink, probe.CheckPodUplink},
	Doc: `A TCP connection to the API server's service, and to another service with ready endpoints, at its cluster IP in every family it has. It is opened and closed, without sending data. Asked from the node, and again from inside one of this node's own pods.
ok: one of the endpoints accepted it. fail, timeout: the rules of kube-proxy on this node lead nowhere, or lead to an endpoint that packets do not reach: pod-tcp asks pods themselves. fail, rejected: the rules on this node know of no ready endpoint, though the API has one: kube-proxy is behind, see kubeproxy-health. info, refused: an endpoint is reached and does not listen. fail, refused, of the API server's: nobody listens behind it. fail, net-unreachable: this node, or the pod, has no route for cluster IPs, not even a default one.
When the node is answered and the pod is not, forwarding or policy between them is what is broken. A NetworkPolicy that keeps the service's pods from this node, or the asking pod from them, makes it a warning.
skip: no service is known.`,
}

// ServiceDestination asks where connections really go (projectcalico/felix#1868: a rule of another agent sent the API's
// address to a kubelet, and what on-call saw was an x509 error).
var ServiceDestination = &probe.Check{
	ID: "service-destination", Asks: "does the kernel send connections for services to their endpoints?",
	From: probe.FromNode, In: probe.Standard, Limit: 8 * time.Second,
	Tags: []string{probe.TagNetwork, probe.TagService}, Access: []string{"host network", "netlink", "NET_ADMIN"},
	Doc: `A connection of the probe's own to each service: the API server's, the cluster's DNS (one query by UDP, one connection by TCP), and another one with ready endpoints, also at this node's own node port. The kernel's table of connections (conntrack) has an entry for it, which shows where the packets were really sent. That is compared with the endpoints in the API. Rules are read only after a connection went elsewhere.
ok: to an endpoint. fail: a foreign rule (not kube-proxy's, not Calico's) sends it elsewhere: DNAT, REDIRECT or TPROXY in iptables or nftables, such as a hostPort whose pod is gone or a transparent proxy, or a route in the table local. What answers there is another program: TLS fails with an x509 error, or the connection times out. warn: the same of another service. info: the same, and what answers there has a certificate for the service or knows the cluster's names, as a load balancer or a DNS cache on purpose.
info: to an address that is no endpoint, by no rule of others: the endpoints have just changed, or kube-proxy's rules are stale, see kubeproxy-health. info: not translated, as no rule of kube-proxy has the address. info: the kernel does not track the connection, as with NodeLocal DNSCache: where it goes is not known.
skip: the eBPF data plane, which translates before the kernel tracks, or the capability NET_ADMIN is missing. Only the node's own connections are followed, not those of its pods. The kernel loads its module nf_conntrack_netlink for this if it is not loaded, as Felix and kube-proxy do.`,
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
	ID: "service-nodeport", Asks: "does a NodePort service answer at every node's own address?", From: probe.FromNode,
	In:   probe.Standard,
	Tags: []string{probe.TagNetwork, probe.TagService}, Access: []string{"host network"},
	Needs: []string{probe.CheckNodeUplink},
	Doc: `A TCP connection from this node to one and the same NodePort service at each node's InternalIP, this node's own among them. It is opened and closed, without sending data.
ok: it was accepted. fail, timeout: that node's packets to the service's pods get lost, or a firewall drops the NodePort range (30000-32767) between the nodes. When it answers at the nodes that have one of the pods and at no other, the pod network between the nodes is down: see pod-ping and bgp-session, not kube-proxy. fail, refused or rejected: that node's kube-proxy has no rule for it, or knows of no endpoint.
info: every node refuses it: then NodePorts are most likely kept to other addresses (kube-proxy's nodePortAddresses).
skip: no NodePort service is known.`,
}
