package checks

import (
	"context"
	"fmt"
	"net"
	"strconv"
	"strings"
	"time"

	"github.com/miekg/dns"

	"github.com/calico-probe/calico-probe/probe"
)

// DNSCluster asks the cluster's DNS as a pod on this node would, and every server
// behind it: a broken service path and a broken server look the same to users.
var DNSCluster = &probe.Check{
	ID: "dns-cluster", Asks: "does the cluster's DNS answer this node, by its service and by each server behind it?", From: probe.FromNode,
	Tags: []string{tagNetwork, tagDNS}, Access: []string{"host network", "var/lib/kubelet/config.yaml"}, Run: dnsCluster, Limit: 8 * time.Second,
	Doc: `The name of the API server's service (kubernetes.default.svc in the cluster's domain) is asked of the DNS service's address and of each of its endpoints, by UDP and by TCP.
ok: an address came back. fail, no answer: packets get lost on the way there: when the endpoints answer and the service does not, kube-proxy's rules on this node are broken; when endpoints on other nodes do not answer, the pod network between the nodes is. fail, refused: nothing listens. fail, SERVFAIL: the server itself cannot reach the API. fail, NXDOMAIN: it knows another cluster domain than the kubelet.
skip: the cluster has no DNS service with the usual label (k8s-app=kube-dns).`,
}

// Facts of dns-cluster.
const (
	FactRcode     probe.Fact = "rcode"     // of the answer: NOERROR, SERVFAIL, NXDOMAIN, REFUSED
	FactAnswers   probe.Fact = "answers"   // addresses that came back
	FactQuestion  probe.Fact = "question"  // the name asked for
	FactTransport probe.Fact = "transport" // udp or tcp
)

func dnsCluster(ctx context.Context, p *probe.Pass) {
	servers := p.Of(probe.KindDNS)
	if len(servers) == 0 {
		p.Report(gap(p, probe.KindDNS, "the cluster has no DNS service that is known"))
		return
	}
	domain, guessed := "cluster.local", true // kubeadm's default
	if k, err := readKubelet(p.Host); err == nil && k.ClusterDomain != "" {
		domain, guessed = strings.TrimSuffix(k.ClusterDomain, "."), false
	}
	name := "kubernetes.default.svc." + domain + "."
	each(servers, func(t probe.Target) {
		each([]string{"udp", "tcp"}, func(network string) {
			addr := net.JoinHostPort(t.Addr.String(), strconv.Itoa(t.Port))
			r := askDNS(ctx, network, addr, name)
			if guessed && r.Facts.Str(FactRcode) == dns.RcodeToString[dns.RcodeNameError] {
				r.Status = probe.Unknown
				r.Saw += " (the kubelet's domain is not visible here)"
			}
			p.Report(about(r, t).On(fmt.Sprintf("%s %s %s", t.Name, addr, network)).
				With(FactQuestion, name).With(FactTransport, network).With(FactFamily, family(t.Addr)))
		})
	})
}

// askDNS asks one server for a name once, or twice by UDP, which may lose one
// packet without meaning anything.
func askDNS(ctx context.Context, network, addr, name string) probe.Result {
	r := askRecord(ctx, network, addr, name, dns.TypeA)
	if r.Facts.Str(FactRcode) == dns.RcodeToString[dns.RcodeSuccess] && r.Status == probe.Fail { // a cluster of IPv6 alone
		r = askRecord(ctx, network, addr, name, dns.TypeAAAA)
	}
	return r
}

func askRecord(ctx context.Context, network, addr, name string, record uint16) probe.Result {
	question := new(dns.Msg).SetQuestion(name, record)
	tries := map[string]int{"udp": 2, "tcp": 1}[network]
	var err error
	var waited time.Duration
	for range tries {
		one, limit, cancel := part(ctx, 1)
		client := dns.Client{Net: network, Timeout: limit}
		var answer *dns.Msg
		var took time.Duration
		answer, took, err = client.ExchangeContext(one, question, addr)
		cancel()
		if err == nil {
			return dnsSays(answer, took)
		}
		if r, cut := cutShort(ctx, err); cut {
			return r
		}
		waited += limit
		if probe.Reason(err) != "timeout" {
			break
		}
	}
	return noAnswer(err, addr, waited)
}

func dnsSays(a *dns.Msg, took time.Duration) probe.Result {
	var addrs []string
	for _, rr := range a.Answer {
		switch r := rr.(type) {
		case *dns.A:
			addrs = append(addrs, r.A.String())
		case *dns.AAAA:
			addrs = append(addrs, r.AAAA.String())
		}
	}
	rcode := dns.RcodeToString[a.Rcode]
	r := probe.Found(probe.Fail, "it answers %s", rcode)
	switch {
	case a.Rcode == dns.RcodeSuccess && len(addrs) > 0:
		r = probe.Found(probe.OK, "%s in %s", strings.Join(addrs, ", "), took.Round(100*time.Microsecond))
	case a.Rcode == dns.RcodeSuccess && a.Truncated:
		r = probe.Found(probe.Warn, "it answers with a truncated message and no address")
	case a.Rcode == dns.RcodeSuccess:
		r = probe.Found(probe.Fail, "it answers without an address")
	case a.Rcode == dns.RcodeNameError:
		r.Saw += ": it does not know the name; has it another cluster domain than the kubelet?"
	case a.Rcode == dns.RcodeServerFailure:
		r.Saw += ": it cannot find out, often because it cannot reach the API server"
	}
	return r.With(FactRcode, rcode).With(FactAnswers, addrs)
}
