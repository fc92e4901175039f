package checks

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/miekg/dns"

	"github.com/calico-probe/calico-probe/probe"
)

// DNSCluster asks the cluster's DNS as pods on this node do, and every server
// behind it: a broken service path and a broken server look the same to users.
var DNSCluster = &probe.Check{
	ID: probe.CheckDNSCluster, Asks: "does the cluster's DNS answer this node and its pods, by its service and by each server behind it?", From: probe.FromNode, Inside: true, In: probe.Standard,
	Tags:   []string{tagNetwork, tagDNS},
	Access: []string{"host network", "var/lib/kubelet/config.yaml", probe.AccessPods},
	Needs:  []string{probe.CheckNodeUplink, probe.CheckPodUplink}, Run: dnsCluster, Limit: 8 * time.Second,
	Doc: `The name of the API server's service (kubernetes.default.svc in the cluster's domain) is asked of the DNS service's address, of each of its endpoints, and of the address the kubelet gives to pods where that is another one (NodeLocal DNSCache), by UDP and by TCP. Asked from the node, and again from inside one of its own pods.
ok: an address of the Service came back. fail, another address: a part of its configuration answers for that name. fail, no answer: packets get lost on the way there: when the endpoints answer and the service does not, kube-proxy's rules on this node are broken; when endpoints on other nodes do not answer, the pod network between the nodes is; when only the kubelet's address does not, the node's own cache is down. fail, refused: nothing listens; of a service without a ready endpoint it is said so, with the replicas of its Deployment. fail, SERVFAIL: the server's upstream failed, often because it cannot reach the API. fail, REFUSED: the server answers but is not configured to serve that name. fail, NXDOMAIN: it knows another cluster domain than the kubelet. Where the same server resolves a name of another namespace it is said so: then a part of its configuration answers for namespace default. fail, truncated: the answer does not fit into UDP, and the retry over TCP fails: a firewall that lets DNS through only over UDP.
When the node is answered and the pod is not, policy or forwarding between them is what is broken. A NetworkPolicy that keeps the asking pod from DNS makes it fail too.
fail, unset: the kubelet runs with a configuration that names no clusterDNS, so new pods get the node's own servers.
skip: the cluster has no DNS service with the usual label (k8s-app=kube-dns) and the kubelet names none, or there is no pod on this node to ask from.`,
}

// Facts of the DNS checks.
const (
	FactRcode     probe.Fact = "rcode"      // of the answer: NOERROR, SERVFAIL, NXDOMAIN, REFUSED
	FactAnswers   probe.Fact = "answers"    // addresses that came back
	FactQuestion  probe.Fact = "question"   // the name asked for
	FactTransport probe.Fact = "transport"  // udp or tcp
	FactTruncated probe.Fact = "truncated"  // true when the answer did not fit into UDP
	FactGiven     probe.Fact = "given"      // list of the name servers that the kubelet gives to pods
	FactOtherZone probe.Fact = "other_zone" // a name of another namespace that the same server resolves
	FactUnserved  probe.Fact = "unserved"   // why nothing is behind the service, where it has no ready endpoint
)

// RoleGiven is the role of a name server that the kubelet gives to pods and that is not the Service of the
// cluster's DNS.
const RoleGiven = "clusterDNS"

// ReasonUnset is the reason where the kubelet gives pods no name server of the cluster's.
const ReasonUnset = "unset"

func dnsCluster(ctx context.Context, p *probe.Pass) {
	k, err := readKubelet(p.Host)
	domain, guessed := domainOf(k, err)
	servers := dnsServers(p, k)
	if len(servers) == 0 {
		p.Report(gap(p, probe.KindDNS, "the cluster has no DNS service that is known"))
		return
	}
	if err == nil && k.givesNone() {
		p.Report(probe.Found(probe.Fail, "the kubelet's configuration names no clusterDNS: new pods get the node's own name servers").
			On(RoleGiven).With(FactRole, RoleGiven).With(probe.FactReason, ReasonUnset))
	}
	name := "kubernetes.default.svc." + domain + "."
	each(servers, func(t probe.Target) {
		ask := func(network string) probe.Result {
			r := askAddress(ctx, network, addrOf(t), name)
			if guessed && r.Facts.Str(FactRcode) == dns.RcodeToString[dns.RcodeNameError] {
				r.Status = probe.Unknown
				r.Saw += " (the kubelet's domain is not visible here)"
			}
			return oneZone(ctx, asServed(p, r), network, addrOf(t), name, domain)
		}
		var udp, tcp probe.Result
		each([]func(){func() { udp = ask("udp") }, func() { tcp = ask("tcp") }}, func(f func()) { f() })
		for network, r := range map[string]probe.Result{"udp": cutAnswer(udp, tcp), "tcp": tcp} {
			if t.Name == RoleGiven {
				r = r.With(FactGiven, k.ClusterDNS)
			}
			if t.Node != "" {
				r = r.With(probe.FactNode, t.Node)
			}
			p.Report(withEndpoints(about(r, t), t).On(fmt.Sprintf("%s %s %s", t.Name, addrOf(t), network)).
				With(FactQuestion, name).With(FactTransport, network).With(FactFamily, family(t.Addr)).
				With(FactRole, t.Name))
		}
	})
}

// oneZone adds to an answer without an address that the same server knows the names of another namespace: then its
// configuration has a part of its own for this one. The name is asked again after that: a server that could not reach
// the API for a moment answers it now.
func oneZone(ctx context.Context, r probe.Result, network, addr, name, domain string) probe.Result {
	if r.Status != probe.Fail || r.Facts.Str(FactRcode) == "" {
		return r
	}
	other := "kube-dns.kube-system.svc." + domain + "."
	if askAddress(ctx, network, addr, other).Status != probe.OK {
		return r
	}
	again := askAddress(ctx, network, addr, name)
	if again.Status != probe.Fail || again.Facts.Str(FactRcode) == "" {
		return r
	}
	r.Saw = fmt.Sprintf("it answers %s to this name of namespace default, and resolves %s", r.Facts.Str(FactRcode), other)
	return r.With(FactOtherZone, other)
}

// givesNone tells whether a kubelet surely has no name server of the cluster's for pods: one that is a
// part of another program may have it by an argument.
func (k kubelet) givesNone() bool { return k.pid > 0 && k.config != "" && len(k.ClusterDNS) == 0 }

// withEndpoints is a bad answer of a service, with what the API says of it where nothing is behind it.
func withEndpoints(r probe.Result, t probe.Target) probe.Result {
	why := t.Attrs[probe.AttrEmpty]
	if why == "" || r.Status != probe.Fail {
		return r
	}
	r.Saw += "; " + why
	return r.With(FactUnserved, why)
}

// askAddress asks one server for the address of a name, of either family.
func askAddress(ctx context.Context, network, addr, name string) probe.Result {
	for _, record := range []uint16{dns.TypeA, dns.TypeAAAA} {
		a := askDNS(ctx, network, addr, name, record)
		if a.msg != nil && a.msg.Rcode == dns.RcodeSuccess && len(a.addresses()) == 0 && record == dns.TypeA {
			continue // a cluster of IPv6 alone
		}
		return addressSays(ctx, a)
	}
	return probe.Result{}
}

func addressSays(ctx context.Context, a dnsAnswer) probe.Result {
	if a.msg == nil {
		return a.failure(ctx)
	}
	addrs := a.addresses()
	r := probe.Found(probe.Fail, "it answers %s%s", a.rcode(), rcodes[a.msg.Rcode])
	switch {
	case a.msg.Rcode == dns.RcodeSuccess && len(addrs) > 0:
		r = probe.Found(probe.OK, "resolved to %s in %v", strings.Join(addrs[:min(len(addrs), 4)], ", "),
			a.took.Round(100*time.Microsecond))
	case a.msg.Rcode == dns.RcodeSuccess:
		r = probe.Found(probe.Fail, "it answers with no address")
	case a.msg.Rcode == dns.RcodeNameError:
		r.Saw += ": it does not know the name; does its cluster domain differ from the kubelet's?"
	}
	if a.msg.Truncated {
		r = r.With(FactTruncated, true)
	}
	return r.With(FactRcode, a.rcode()).With(FactAnswers, addrs[:min(len(addrs), 16)])
}

// cutAnswer is what an answer by UDP is worth that did not fit: what TCP makes of
// it, because a client asks again by TCP.
func cutAnswer(udp, tcp probe.Result) probe.Result {
	if udp.Facts[FactTruncated] != true {
		return udp
	}
	udp.Status = tcp.Status
	udp.Saw = "its UDP answer is truncated, and over TCP: " + tcp.Saw
	if reason := tcp.Facts.Str(probe.FactReason); reason != "" {
		udp = udp.With(probe.FactReason, reason)
	}
	return udp
}
