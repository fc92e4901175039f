package reach

import (
	"bytes"
	"cmp"
	"context"
	"net/netip"
	"strconv"
	"strings"
	"time"

	"github.com/miekg/dns"

	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/probe/node"
)

// Rcodes describes the usual DNS failures in words that end a sentence.
var Rcodes = map[int]string{
	dns.RcodeServerFailure: ": its upstream (the API server, or the servers it forwards to) failed",
	dns.RcodeRefused:       ": it answers, but is not configured to serve that name to this client",
}

// PodSearch returns the search list that the kubelet configures for pods in a namespace, and the cluster's domain.
func PodSearch(h *probe.Host, namespace string) (search []string, domain string) {
	k, err := node.ReadKubelet(h)
	domain, _ = node.DomainOf(k, err)
	search = []string{namespace + ".svc." + domain, "svc." + domain, domain}
	text, err := h.ReadFile(cmp.Or(k.ResolvConf, "/etc/resolv.conf"))
	if err != nil { // in that case, the node's search domains are unknown
		return search, domain
	}
	_, own := ResolvConf(text)
	for _, s := range own {
		if s = strings.TrimSuffix(s, "."); s != "" {
			search = append(search, s)
		}
	}
	return search, domain
}

// ResolvConf returns the servers and the search list from a resolver configuration. It reads at most as many
// servers as glibc uses, and at most as many domains as Kubernetes copies into a pod.
func ResolvConf(text []byte) (servers []netip.Addr, search []string) {
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

// DNSAnswer is the outcome of one query.
type DNSAnswer struct {
	Msg    *dns.Msg // nil = no answer
	Took   time.Duration
	Err    error // the reason for a missing answer
	Server string
	Waited time.Duration // how long the query waited for the answer
}

// QueryDNS queries one server once. Over UDP, it queries the server twice, because a single lost packet means nothing.
func QueryDNS(ctx context.Context, network, server, name string, record uint16) DNSAnswer {
	a := DNSAnswer{Server: server}
	question := new(dns.Msg).SetQuestion(name, record)
	began := time.Now()
	for range map[string]int{"udp": 2, "tcp": 1}[network] {
		one, limit, cancel := node.Part(ctx, 1)
		client := dns.Client{Net: network, Timeout: limit}
		a.Msg, a.Took, a.Err = client.ExchangeContext(one, question, server)
		cancel()
		if a.Err == nil {
			return a
		}
		a.Msg = nil
		a.Waited = time.Since(began).Round(10 * time.Millisecond)
		if ctx.Err() != nil || probe.Reason(a.Err) != "timeout" {
			return a
		}
	}
	return a
}

// Failure returns the result of a query that got no answer.
func (a DNSAnswer) Failure(ctx context.Context) probe.Result {
	if r, cut := node.CutShort(ctx, a.Err); cut {
		return r
	}
	return node.NoAnswer(a.Err, a.Server, a.Waited)
}

func (a DNSAnswer) Rcode() string {
	return cmp.Or(dns.RcodeToString[a.Msg.Rcode], "code "+strconv.Itoa(a.Msg.Rcode))
}

// Addresses returns the addresses in an answer.
func (a DNSAnswer) Addresses() []string {
	var out []string
	for _, rr := range a.Msg.Answer {
		switch r := rr.(type) {
		case *dns.A:
			out = append(out, r.A.String())
		case *dns.AAAA:
			out = append(out, r.AAAA.String())
		}
	}
	return out
}

// QueryAddress queries one server for the address of a name, in either family.
func QueryAddress(ctx context.Context, network, addr, name string) probe.Result {
	for _, record := range []uint16{dns.TypeA, dns.TypeAAAA} {
		a := QueryDNS(ctx, network, addr, name, record)
		if a.Msg != nil && a.Msg.Rcode == dns.RcodeSuccess && len(a.Addresses()) == 0 && record == dns.TypeA {
			continue // a cluster that has only IPv6
		}
		return judgeAddress(ctx, a)
	}
	return probe.Result{}
}

func judgeAddress(ctx context.Context, a DNSAnswer) probe.Result {
	if a.Msg == nil {
		return a.Failure(ctx)
	}
	addrs := a.Addresses()
	r := probe.Found(probe.Fail, "it answers %s%s", a.Rcode(), Rcodes[a.Msg.Rcode])
	switch {
	case a.Msg.Rcode == dns.RcodeSuccess && len(addrs) > 0:
		r = probe.Found(probe.OK, "resolved to %s in %v", strings.Join(addrs[:min(len(addrs), 4)], ", "),
			a.Took.Round(100*time.Microsecond))
	case a.Msg.Rcode == dns.RcodeSuccess:
		r = probe.Found(probe.Fail, "it answers with no address")
	case a.Msg.Rcode == dns.RcodeNameError:
		r.Saw += ": it does not know the name; does its cluster domain differ from the kubelet's?"
	}
	if a.Msg.Truncated {
		r = r.With(node.FactTruncated, true)
	}
	return r.With(probe.FactRcode, a.Rcode()).With(node.FactAnswers, addrs[:min(len(addrs), 16)])
}
