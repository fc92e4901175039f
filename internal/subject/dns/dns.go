// Package dns names the checks of name resolution: cluster DNS and the node's resolvers, and the facts they report.
// Both binaries link it.
package dns

import (
	"time"

	"github.com/calico-probe/calico-probe/probe"
)

// FactOfService is the list of addresses that the Service of the name has, where the answer has none of them.
const FactOfService probe.Fact = "of_service"

// DNSCluster asks the cluster's DNS as pods on this node do, and every server
// behind it: a broken service path and a broken server look the same to users.
var DNSCluster = &probe.Check{
	ID: probe.CheckDNSCluster, Asks: "does the cluster's DNS answer this node and its pods, by its service and by each server behind it?", From: probe.FromNode, Inside: true, In: probe.Standard,
	Tags:   []string{probe.TagNetwork, probe.TagDNS},
	Access: []string{"host network", "var/lib/kubelet/config.yaml", probe.AccessPods},
	Needs:  []string{probe.CheckNodeUplink, probe.CheckPodUplink}, Limit: 8 * time.Second,
	Doc: `The name of the API server's service (kubernetes.default.svc in the cluster's domain) is asked of the DNS service's address, of each of its endpoints, and of the address the kubelet gives to pods where that is another one (NodeLocal DNSCache), by UDP and by TCP. Asked from the node, and again from inside one of its own pods.
ok: an address of the Service came back. fail, another address: a part of its configuration answers for that name. fail, no answer: packets get lost on the way there: when the endpoints answer and the service does not, kube-proxy's rules on this node are broken; when endpoints on other nodes do not answer, the pod network between the nodes is; when only the kubelet's address does not, the node's own cache is down. fail, refused: nothing listens; of a service without a ready endpoint it is said so, with the replicas of its Deployment. fail, SERVFAIL: the server's upstream failed, often because it cannot reach the API. fail, REFUSED: the server answers but is not configured to serve that name. fail, NXDOMAIN: it knows another cluster domain than the kubelet. Where the same server resolves a name of another namespace it is said so: then a part of its configuration answers for namespace default. fail, truncated: the answer does not fit into UDP, and the retry over TCP fails: a firewall that lets DNS through only over UDP.
When the node is answered and the pod is not, policy or forwarding between them is what is broken. A NetworkPolicy that keeps the asking pod from DNS makes it fail too.
fail, unset: the kubelet runs with a configuration that names no clusterDNS, so new pods get the node's own servers.
skip: the cluster has no DNS service with the usual label (k8s-app=kube-dns) and the kubelet names none, or there is no pod on this node to ask from.`,
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
	ID: "dns-external", Asks: "do names outside the cluster resolve, by the node's own name servers and through the cluster's DNS, and what does the search list cost?", From: probe.FromNode, Inside: true, In: probe.Standard,
	Tags:   []string{probe.TagNetwork, probe.TagDNS},
	Access: []string{"host network", "etc/resolv.conf", "var/lib/kubelet/config.yaml", probe.AccessPods},
	Needs:  []string{probe.CheckNodeUplink, probe.CheckPodUplink, probe.CheckDNSCluster},
	Limit:  10 * time.Second,
	Doc: `The name servers of the root zone are asked of each server in the resolv.conf that the kubelet uses, in /etc/resolv.conf, and of the cluster's DNS, which passes such questions on: an answer takes no access to the Internet, only a resolver that resolves. Then a name that does not exist is asked in each domain of a pod's search list (ndots:5), as every outside name is before it is asked as it stands. Asked from the node, and again from inside one of its own pods, whence the cluster's DNS servers ask too.
ok: answered. info: no answer about names outside the cluster: as it should be where the cluster is cut off; SERVFAIL says that its upstream failed, REFUSED that it is not configured to try, no answer that nothing is there or packets are lost. A domain of the search list that has an answer for every name (a wildcard) takes outside names away from their owners. warn: the node's own servers answer, but the cluster's DNS fails (SERVFAIL) or does not answer: it has no upstream, or that does not answer it, often because packets of its pods leave the node with an address that nobody outside can answer (natOutgoing of the IP pool); or an answer takes more than a second, asked twice; or a domain of the search list is slow, silent or SERVFAIL, which every look-up of an outside name has to wait for. fail: an answer does not fit into UDP, and TCP, which is then asked, fails: a firewall that knows DNS as UDP alone.
skip: neither the node's resolv.conf nor a DNS service is known, or there is no pod on this node to ask from.`,
}
