package ask

import (
	"context"
	"net/netip"
	"os"
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/miekg/dns"

	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/probe/checktest"
	"github.com/calico-probe/calico-probe/probe/must"
	"github.com/calico-probe/calico-probe/probe/reach"
)

// replied returns an answer with a code after a delay.
func replied(rcode int, took time.Duration) reach.DNSAnswer {
	m := new(dns.Msg)
	m.Rcode = rcode
	return reach.DNSAnswer{Msg: m, Took: took, Server: "10.0.0.2:53"}
}

func silence(err error) reach.DNSAnswer {
	return reach.DNSAnswer{Err: err, Server: "10.0.0.2:53", Waited: 4 * time.Second}
}

func TestRootAnswer(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		answer rootAnswer
		passed bool
		status probe.Status
		saw    string
	}{
		"good": {rootAnswer{DNSAnswer: replied(dns.RcodeSuccess, 3*time.Millisecond)}, true, probe.OK,
			"resolve, in 3ms"},
		"slow": {rootAnswer{DNSAnswer: replied(dns.RcodeSuccess, 1500*time.Millisecond)}, false,
			probe.Warn, "resolve, in 1.5s"},
		"cut off": {rootAnswer{DNSAnswer: replied(dns.RcodeServerFailure, 0)}, false, probe.Info,
			"SERVFAIL: its upstream"},
		"does not pass on": {rootAnswer{DNSAnswer: replied(dns.RcodeServerFailure, 0)}, true, probe.Warn,
			"the node's own name servers resolve external names"},
		"not set to": {rootAnswer{DNSAnswer: replied(dns.RcodeRefused, 0)}, true, probe.Info,
			"REFUSED: it answers, but is not configured to"},
		"own root": {rootAnswer{DNSAnswer: replied(dns.RcodeNameError, 0)}, true, probe.Info, "NXDOMAIN"},
		"odd":      {rootAnswer{DNSAnswer: replied(3999, 0)}, true, probe.Info, "code 3999"},
		"silent": {rootAnswer{DNSAnswer: silence(os.ErrDeadlineExceeded)}, false, probe.Info,
			"names outside the cluster do not resolve: no answer from 10.0.0.2:53 within 4s"},
		"silent alone": {rootAnswer{DNSAnswer: silence(os.ErrDeadlineExceeded)}, true, probe.Warn,
			"the node's own name servers resolve external names"},
		"refused": {rootAnswer{DNSAnswer: silence(syscall.ECONNREFUSED)}, false, probe.Info,
			"nothing listens"},
		"cut short": {rootAnswer{silence(os.ErrDeadlineExceeded), true}, false, probe.Fail,
			"truncated; over TCP: no answer from 10.0.0.2:53"},
		"whole by TCP": {rootAnswer{replied(dns.RcodeSuccess, time.Millisecond), true}, false, probe.OK, "resolve"},
		"stopped":      {rootAnswer{DNSAnswer: silence(context.Canceled)}, true, probe.Unknown, "interrupted"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			checktest.Want(t, []probe.Result{c.answer.result(t.Context(), c.passed)}, "", c.status, c.saw)
		})
	}
}

func TestSearched(t *testing.T) {
	t.Parallel()
	no := func(suffix string) searchAnswer {
		return searchAnswer{replied(dns.RcodeNameError, time.Millisecond), suffix}
	}
	ask := func(more ...searchAnswer) []probe.Result {
		return []probe.Result{judgeSearch(t.Context(),
			append([]searchAnswer{no("svc.cluster.local"), no("cluster.local")}, more...))}
	}
	checktest.Want(t, ask(), "", probe.OK, "2 extra queries, 2ms in total")
	checktest.Want(t, ask(searchAnswer{replied(dns.RcodeServerFailure, time.Millisecond), "corp.example"}), "", probe.Warn,
		"3 extra queries", "corp.example: SERVFAIL in 1ms")
	checktest.Want(t, ask(searchAnswer{replied(dns.RcodeNameError, 2*time.Second), "corp.example"}), "", probe.Warn,
		"2.002s in total", "corp.example: NXDOMAIN in 2s")
	checktest.Want(t, ask(searchAnswer{silence(os.ErrDeadlineExceeded), "corp.example"}), "", probe.Warn,
		"corp.example: no answer (timeout)")
	checktest.Want(t, ask(searchAnswer{replied(dns.RcodeRefused, 0), "corp.example"}), "", probe.OK, "3 extra queries")
	wild := searchAnswer{replied(dns.RcodeSuccess, time.Millisecond), "corp.example"}
	rr := must.Get(dns.NewRR("calico-probe.invalid.corp.example. 5 IN A 192.0.2.1"))(t)
	wild.Msg.Answer = []dns.RR{rr}
	checktest.Want(t, ask(wild), "", probe.Info, "corp.example answers every name")
}

// TestDNSExternal queries only a cluster's DNS. Servers of a resolv.conf use port 53, which needs a network namespace:
// see TestRealDNSExternal.
func TestDNSExternal(t *testing.T) {
	t.Parallel()
	h := checktest.Node(t, map[string]string{"var/lib/kubelet/config.yaml": "clusterDomain: example.local\n",
		"etc/resolv.conf": "search corp.example.\n"})
	root := func(q *dns.Msg) *dns.Msg {
		if q.Question[0].Name == "." {
			return new(dns.Msg).SetReply(q)
		}
		return new(dns.Msg).SetRcode(q, dns.RcodeNameError)
	}
	target := dnsAt(t, root)
	target.Name = "service"
	endpoint := target
	endpoint.Name, endpoint.Port = "endpoint", 1
	got := checktest.Run(t, dnsExternalCheck, h, target, endpoint)
	checktest.Want(t, got, "service "+addrOf(target), probe.OK, "names outside the cluster resolve")
	r := checktest.Want(t, got, "search list of service "+addrOf(target), probe.OK, "4 extra queries")
	if len(r.Lines) != 4 || !slices.ContainsFunc(r.Lines, func(l string) bool { return l[:12] == "corp.example" }) {
		t.Errorf("%q", r.Lines)
	}
	if len(got) != 3 { // the third: it cannot enter pods
		t.Errorf("%+v", got)
	}
	checktest.Want(t, checktest.Run(t, dnsExternalCheck, h, checktest.Self("10.0.0.1")), "", probe.Skip,
		"the node's name servers and the DNS Service are unknown")
	hidden := &probe.Host{Root: h.Root, Proc: h.Proc, Only: []string{"/run/calico"}}
	checktest.Want(t, checktest.Run(t, dnsExternalCheck, hidden), "/etc/resolv.conf", probe.Skip, "not visible")
}

// FuzzResolvConf reads arbitrary text as a resolv.conf.
func FuzzResolvConf(f *testing.F) {
	f.Add([]byte("nameserver 10.0.0.2\nnameserver fe80::1%eth0\nsearch a.example b.example\noptions ndots:5\n"))
	f.Add([]byte("nameserver\nsearch\n# \x00\n"))
	f.Fuzz(func(t *testing.T, text []byte) {
		servers, search := reach.ResolvConf(text)
		if len(servers) > 3 || len(search) > 32 ||
			slices.ContainsFunc(servers, func(a netip.Addr) bool { return !a.IsValid() }) {
			t.Errorf("%v, %v", servers, search)
		}
	})
}
