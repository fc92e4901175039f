package ask

import (
	"net"
	"net/netip"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/miekg/dns"

	dnsfacts "github.com/calico-probe/calico-probe/internal/subject/dns"
	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/probe/checktest"
	"github.com/calico-probe/calico-probe/probe/must"
	"github.com/calico-probe/calico-probe/probe/node"
	"github.com/calico-probe/calico-probe/probe/reach"
)

// dnsAt is a DNS server that answers by UDP and TCP on one port.
func dnsAt(t *testing.T, answer func(*dns.Msg) *dns.Msg) probe.Target {
	t.Helper()
	l := must.Get(net.Listen("tcp", "127.0.0.1:0"))(t)
	at := netip.MustParseAddrPort(l.Addr().String())
	u := must.Get(net.ListenPacket("udp", at.String()))(t)
	handler := dns.HandlerFunc(func(w dns.ResponseWriter, q *dns.Msg) {
		if a := answer(q); a != nil {
			_ = w.WriteMsg(a) // the client may have closed the connection
		}
	})
	for _, s := range []*dns.Server{{Listener: l, Handler: handler}, {PacketConn: u, Handler: handler}} {
		go func() { _ = s.ActivateAndServe() }() // until it is shut down
		t.Cleanup(func() { _ = s.Shutdown() })
	}
	return probe.Target{Kind: probe.KindDNS, Name: "endpoint", Addr: at.Addr(), Port: int(at.Port())}
}

// TestOneZone checks that the other zone is reported only if the first name still fails after the second resolved.
func TestOneZone(t *testing.T) {
	t.Parallel()
	const name, domain = "kubernetes.default.svc.example.local.", "example.local"
	for _, recovers := range []bool{false, true} {
		var resolved atomic.Bool
		server := dnsAt(t, func(q *dns.Msg) *dns.Msg {
			queried := q.Question[0].Name
			if queried == name && !(recovers && resolved.Load()) {
				return new(dns.Msg).SetRcode(q, dns.RcodeServerFailure)
			}
			resolved.Store(true)
			rr, err := dns.NewRR(queried + " 5 IN A 10.96.0.10")
			if err != nil {
				panic(err) // the check's own name is valid
			}
			a := new(dns.Msg).SetReply(q)
			a.Answer = []dns.RR{rr}
			return a
		})
		first := reach.QueryAddress(t.Context(), "udp", addrOf(server), name)
		r := withOtherZone(t.Context(), first, "udp", addrOf(server), name, domain)
		if _, kept := r.Facts[dnsfacts.FactOtherZone]; kept == recovers || r.Status != probe.Fail {
			t.Errorf("recovers %t: %+v", recovers, r)
		}
	}
}

func TestDNSCluster(t *testing.T) {
	t.Parallel()
	h := checktest.Node(t, map[string]string{"var/lib/kubelet/config.yaml": "clusterDomain: example.local\n"})
	address := func(q *dns.Msg) *dns.Msg {
		a := new(dns.Msg).SetReply(q)
		if rr, err := dns.NewRR(q.Question[0].Name + " 5 IN A 10.96.0.1"); err == nil &&
			q.Question[0].Name == "kubernetes.default.svc.example.local." {
			a.Answer = []dns.RR{rr}
		}
		return a
	}
	address6 := func(q *dns.Msg) *dns.Msg {
		a := new(dns.Msg).SetReply(q)
		if rr, err := dns.NewRR(q.Question[0].Name + " 5 IN AAAA fd00:10:96::1"); err == nil &&
			q.Question[0].Qtype == dns.TypeAAAA {
			a.Answer = []dns.RR{rr}
		}
		return a
	}
	rcode := func(code int) func(*dns.Msg) *dns.Msg {
		return func(q *dns.Msg) *dns.Msg { return new(dns.Msg).SetRcode(q, code) }
	}
	for name, c := range map[string]struct {
		answer func(*dns.Msg) *dns.Msg
		status probe.Status
		saw    string
	}{
		"good":     {address, probe.OK, "10.96.0.1 in"},
		"IPv6":     {address6, probe.OK, "fd00:10:96::1 in"},
		"nxdomain": {rcode(dns.RcodeNameError), probe.Fail, "cluster domain differ"},
		"servfail": {rcode(dns.RcodeServerFailure), probe.Fail, "SERVFAIL"},
		"refused":  {rcode(dns.RcodeRefused), probe.Fail, "REFUSED"},
		"one zone": {func(q *dns.Msg) *dns.Msg {
			if rr, err := dns.NewRR(q.Question[0].Name + " 5 IN A 10.96.0.10"); err == nil &&
				strings.HasPrefix(q.Question[0].Name, "kube-dns.kube-system.") {
				a := new(dns.Msg).SetReply(q)
				a.Answer = []dns.RR{rr}
				return a
			}
			return new(dns.Msg).SetRcode(q, dns.RcodeServerFailure)
		}, probe.Fail, "it answers SERVFAIL for this name in namespace default, but resolves kube-dns.kube-system.svc."},
		"empty":  {rcode(dns.RcodeSuccess), probe.Fail, "with no address"},
		"silent": {func(*dns.Msg) *dns.Msg { return nil }, probe.Fail, "no answer from"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			target := dnsAt(t, c.answer)
			got := checktest.Run(t, dnsClusterCheck, h, target)
			at := netip.AddrPortFrom(target.Addr, uint16(target.Port)).String()
			checktest.Want(t, got, "endpoint "+at+" udp", c.status, c.saw)
			checktest.Want(t, got, "endpoint "+at+" tcp", c.status, c.saw)
		})
	}
	silent := probe.Target{Kind: probe.KindDNS, Name: "service", Addr: netip.MustParseAddr("127.0.0.1"), Port: 1}
	got := checktest.Run(t, dnsClusterCheck, h, silent)
	checktest.Want(t, got, "service 127.0.0.1:1 tcp", probe.Fail, "refused")
	checktest.Want(t, got, "service 127.0.0.1:1 udp", probe.Fail, "refused")
	silent.Attrs = map[string]string{probe.AttrEmpty: "Service a/b has no ready endpoint"}
	got = checktest.Run(t, dnsClusterCheck, h, silent)
	checktest.Want(t, got, "service 127.0.0.1:1 tcp", probe.Fail, "; Service a/b has no ready endpoint")
	if !slices.ContainsFunc(got, func(r probe.Result) bool { return r.Facts.Str(dnsfacts.FactUnserved) != "" }) {
		t.Errorf("%+v", got)
	}
	checktest.Want(t, checktest.Run(t, dnsClusterCheck, h, checktest.Self("10.0.0.1")), "", probe.Skip, "no DNS Service")
}

// TestDNSAsServed distinguishes an answer with the Service's address from one with another address.
func TestDNSAsServed(t *testing.T) {
	t.Parallel()
	p := &probe.Pass{Targets: []probe.Target{
		{Kind: probe.KindDatastore, Name: probe.RoleService, Addr: netip.MustParseAddr("10.96.0.1")},
		{Kind: probe.KindDatastore, Name: "endpoint", Addr: netip.MustParseAddr("10.0.0.1")}}}
	for answer, want := range map[string]probe.Status{"10.96.0.1": probe.OK, "10.1.1.1": probe.Fail, "fd00::1": probe.OK} {
		got := compareService(p,
			probe.Found(probe.OK, "resolved to %s in 1ms", answer).With(node.FactAnswers, []string{answer}))
		if got.Status != want || (want == probe.Fail) != strings.Contains(got.Saw, "Service default/kubernetes has 10.96.0.1") {
			t.Errorf("%s: %+v", answer, got)
		}
	}
}

// TestUpstream checks that a loopback name server in the kubelet's file for CoreDNS is reported, and only such a one.
func TestUpstream(t *testing.T) {
	t.Parallel()
	const stub, real = "nameserver 127.0.0.53\n", "nameserver 192.0.2.53\n"
	for name, c := range map[string]struct {
		files map[string]string
		file  string // "" = no result
	}{
		"the default file": {map[string]string{"etc/resolv.conf": stub}, "/etc/resolv.conf"},
		"the kubelet's file": {map[string]string{"etc/resolv.conf": real, "run/stub.conf": stub,
			"var/lib/kubelet/config.yaml": "resolvConf: /run/stub.conf\n"}, "/run/stub.conf"},
		"a real server": {map[string]string{"etc/resolv.conf": stub, "run/real.conf": real,
			"var/lib/kubelet/config.yaml": "resolvConf: /run/real.conf\n"}, ""},
		"no file":    {map[string]string{}, ""},
		"no kubelet": {map[string]string{"etc/resolv.conf": stub}, ""},
	} {
		server := dnsAt(t, func(q *dns.Msg) *dns.Msg { return new(dns.Msg).SetReply(q) })
		if name != "no kubelet" {
			checktest.Process(c.files, 9, 1, "kubelet", 1, "", "kubelet")
		}
		var found []probe.Result
		for _, r := range checktest.Run(t, dnsClusterCheck, checktest.Node(t, c.files), server) {
			if r.Target == dnsfacts.TargetUpstream {
				found = append(found, r)
			}
		}
		switch {
		case c.file == "" && len(found) > 0:
			t.Errorf("%s: %+v", name, found)
		case c.file != "" && (len(found) != 1 || found[0].Facts.Str(probe.FactFile) != c.file ||
			found[0].Status != probe.Info):
			t.Errorf("%s: %+v", name, found)
		}
	}
}
