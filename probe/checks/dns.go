package checks

import (
	"bytes"
	"cmp"
	"context"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/miekg/dns"

	"github.com/calico-probe/calico-probe/probe"
)

// dnsPort is where a server answers of which only the address is known.
const dnsPort = 53

// rcodes puts the usual failures of DNS into words, as a tail of the sentence.
var rcodes = map[int]string{
	dns.RcodeServerFailure: ": its upstream (the API server, or the servers it forwards to) failed",
	dns.RcodeRefused:       ": it answers, but is not configured to serve that name to this client",
}

// domainOf is the cluster's domain; guessed when the kubelet does not tell.
func domainOf(k kubelet, err error) (domain string, guessed bool) {
	if err == nil && k.ClusterDomain != "" {
		return strings.TrimSuffix(k.ClusterDomain, "."), false
	}
	return "cluster.local", true // kubeadm's default
}

// PodSearch is the search list that the kubelet gives to pods of a namespace, and the cluster's domain.
func PodSearch(h *probe.Host, namespace string) (search []string, domain string) {
	k, err := readKubelet(h)
	domain, _ = domainOf(k, err)
	search = []string{namespace + ".svc." + domain, "svc." + domain, domain}
	text, err := h.ReadFile(cmp.Or(k.ResolvConf, "/etc/resolv.conf"))
	if err != nil { // then the node adds nothing that is known
		return search, domain
	}
	_, own := resolvConf(text)
	for _, s := range own {
		if s = strings.TrimSuffix(s, "."); s != "" {
			search = append(search, s)
		}
	}
	return search, domain
}

// dnsServers are the cluster's DNS by the plan, and the addresses the kubelet
// gives to pods where those are others: NodeLocal DNSCache answers at an address
// that the API knows nothing of.
func dnsServers(p *probe.Pass, k kubelet) []probe.Target {
	servers := p.Of(probe.KindDNS)
	for _, text := range k.ClusterDNS {
		a, err := netip.ParseAddr(strings.TrimSpace(text))
		known := func(t probe.Target) bool { return t.Addr == a }
		if err == nil && !slices.ContainsFunc(servers, known) {
			servers = append(servers, probe.Target{Kind: probe.KindDNS, Name: RoleGiven, Addr: a, Port: dnsPort})
		}
	}
	return servers
}

func addrOf(t probe.Target) string { return net.JoinHostPort(t.Addr.String(), strconv.Itoa(t.Port)) }

// resolvConf is what a resolver's configuration names: servers and search list.
// More than glibc heeds of servers, and more than Kubernetes takes into a pod of
// domains, is not read.
func resolvConf(text []byte) (servers []netip.Addr, search []string) {
	c, err := dns.ClientConfigFromReader(bytes.NewReader(text))
	if err != nil {
		return nil, nil
	}
	const maxServers, maxSearch = 3, 32
	for _, s := range c.Servers[:min(len(c.Servers), maxServers)] {
		if a, err := netip.ParseAddr(s); err == nil {
			servers = append(servers, a)
		}
	}
	return servers, c.Search[:min(len(c.Search), maxSearch)]
}

// dnsAnswer is what became of one question.
type dnsAnswer struct {
	msg    *dns.Msg // nil = no answer
	took   time.Duration
	err    error // why there is none
	server string
	waited time.Duration // for it
}

// askDNS asks one server once, or twice by UDP, which may lose one packet without
// meaning anything.
func askDNS(ctx context.Context, network, server, name string, record uint16) dnsAnswer {
	a := dnsAnswer{server: server}
	question := new(dns.Msg).SetQuestion(name, record)
	began := time.Now()
	for range map[string]int{"udp": 2, "tcp": 1}[network] {
		one, limit, cancel := part(ctx, 1)
		client := dns.Client{Net: network, Timeout: limit}
		a.msg, a.took, a.err = client.ExchangeContext(one, question, server)
		cancel()
		if a.err == nil {
			return a
		}
		a.msg = nil
		a.waited = time.Since(began).Round(10 * time.Millisecond)
		if ctx.Err() != nil || probe.Reason(a.err) != "timeout" {
			return a
		}
	}
	return a
}

// failure is the result of a question without an answer.
func (a dnsAnswer) failure(ctx context.Context) probe.Result {
	if r, cut := cutShort(ctx, a.err); cut {
		return r
	}
	return noAnswer(a.err, a.server, a.waited)
}

func (a dnsAnswer) rcode() string {
	return cmp.Or(dns.RcodeToString[a.msg.Rcode], "code "+strconv.Itoa(a.msg.Rcode))
}

// addresses are those in an answer.
func (a dnsAnswer) addresses() []string {
	var out []string
	for _, rr := range a.msg.Answer {
		switch r := rr.(type) {
		case *dns.A:
			out = append(out, r.A.String())
		case *dns.AAAA:
			out = append(out, r.AAAA.String())
		}
	}
	return out
}
