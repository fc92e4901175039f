package do

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/miekg/dns"

	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/probe/must"
	"github.com/calico-probe/calico-probe/probe/tools"
)

// zone answers for example.test like real servers; the library is CoreDNS's.
func zone(w dns.ResponseWriter, q *dns.Msg) {
	a := new(dns.Msg).SetReply(q)
	name, record := q.Question[0].Name, q.Question[0].Qtype
	add := func(text string) {
		rr, err := dns.NewRR(text)
		if err != nil {
			panic(err)
		}
		a.Answer = append(a.Answer, rr)
	}
	switch {
	case name == "web.example.test." && record == dns.TypeA:
		add(name + " 30 IN CNAME real.example.test.")
		add("real.example.test. 30 IN A 127.0.0.1")
	case name == "large.example.test." && record == dns.TypeTXT:
		for i := range 300 {
			add(fmt.Sprintf("%s 5 IN TXT \"number %d of many\"", name, i))
		}
	case name == "nasty.example.test." && record == dns.TypeTXT:
		add(name + ` 5 IN TXT "\027[2J"`)
	case name == "1.0.0.127.in-addr.arpa.":
		add(name + " 5 IN PTR web.example.test.")
	case name == "broken.example.test.":
		a.Rcode = dns.RcodeServerFailure
	case name == "half.example.test." && record == dns.TypeA:
		add(name + " 30 IN A 127.0.0.1")
	case name == "silent.example.test.", name == "half.example.test.":
		return
	case !strings.HasPrefix(name, "web.example.test."):
		a.Rcode = dns.RcodeNameError
	}
	if w.RemoteAddr().Network() == "udp" {
		a.Truncate(dns.MinMsgSize)
	}
	_ = w.WriteMsg(a) // the client may have gone
}

// nameServer serves the zone over UDP and TCP on one port.
func nameServer(t *testing.T) string { return answers(t, zone) }

func answers(t *testing.T, h dns.HandlerFunc) string {
	t.Helper()
	l := must.Get(net.Listen("tcp", "127.0.0.1:0"))(t)
	u := must.Get(net.ListenPacket("udp", l.Addr().String()))(t)
	for _, s := range []*dns.Server{{Listener: l, Handler: h}, {PacketConn: u, Handler: h}} {
		up := make(chan struct{})
		s.NotifyStartedFunc = func() { close(up) }
		go func() { _ = s.ActivateAndServe() }() // until it is shut down
		<-up
		t.Cleanup(func() { _ = s.Shutdown() })
	}
	return l.Addr().String()
}

func TestDNS(t *testing.T) {
	t.Parallel()
	at := "@" + nameServer(t)
	root := files(t, map[string]string{"etc/resolv.conf": "search none.test example.test\noptions ndots:2\n"})
	for line, want := range map[string]struct {
		status probe.Status
		saw    string
		out    []string
	}{
		"web.example.test": {probe.OK, "web.example.test. A is 127.0.0.1",
			[]string{"NOERROR", "CNAME  real.example.test.", "30  A  127.0.0.1", "AAAA"}},
		"web.example.test AAAA": {probe.Fail, "no AAAA record for it", []string{"NOERROR"}},
		"web.example.test aaaa": {probe.Fail, "no AAAA record for it", nil},
		"none.example.test":     {probe.Fail, "NXDOMAIN", []string{"NXDOMAIN"}},
		"broken.example.test":   {probe.Fail, "SERVFAIL", nil},
		"-x 127.0.0.1":          {probe.OK, "PTR is web.example.test.", nil},
		"large.example.test TXT": {probe.OK, "and 299 more",
			[]string{"by TCP (truncated over UDP)", "(100 records not shown)"}},
		"nasty.example.test TXT": {probe.OK, `\027[2J`, nil},
		"web --search A": {probe.OK, "web.example.test. A is 127.0.0.1",
			[]string{"web.none.test.", "NXDOMAIN"}},
		"web.":                      {probe.Fail, "NXDOMAIN to web.:", nil},
		"--tcp web.example.test A":  {probe.OK, "is 127.0.0.1", []string{"by TCP: NOERROR"}},
		"silent.example.test -t .1": {probe.Fail, "does not answer about silent.example.test.: no answer within", nil},
	} {
		r, out := use(t.Context(), t, root, "dns", append(strings.Fields(line), at)...)
		if strings.HasPrefix(line, "-x") {
			r, out = use(t.Context(), t, root, "dns", append([]string{at}, strings.Fields(line)...)...)
		}
		wants(t, r, want.status, want.saw)
		for _, text := range want.out {
			if !strings.Contains(out, text) {
				t.Errorf("%s: no %q in\n%s", line, text, out)
			}
		}
	}
	r, _ := use(t.Context(), t, root, "dns", "web", "@"+closedPort(t))
	wants(t, r, probe.Fail, "refused")
	over, cancel := context.WithCancel(t.Context())
	cancel()
	r, _ = use(over, t, root, "dns", "web", at)
	wants(t, r, probe.Unknown, "stopped")
}

// TestFind checks that a name is resolved as the node's own programs do.
func TestFind(t *testing.T) {
	t.Parallel()
	at := netip.MustParseAddrPort
	knows := at(nameServer(t))
	fails := at(answers(t, func(w dns.ResponseWriter, q *dns.Msg) {
		_ = w.WriteMsg(new(dns.Msg).SetRcode(q, dns.RcodeServerFailure))
	}))
	refuses := at(answers(t,
		func(w dns.ResponseWriter, q *dns.Msg) { _ = w.WriteMsg(new(dns.Msg).SetRcode(q, dns.RcodeRefused)) }))
	silent := at(silentDatagrams(t))
	for name, c := range map[string]struct {
		host    string
		servers []netip.AddrPort
		want    string // the address, or the expected message
	}{
		"another knows":           {"web.example.test", []netip.AddrPort{fails, refuses, knows}, "127.0.0.1"},
		"by the search list":      {"web", []netip.AddrPort{silent, knows}, "127.0.0.1"},
		"no such name":            {"none", []netip.AddrPort{knows, fails}, "NXDOMAIN to none."},
		"nobody can find out":     {"web", []netip.AddrPort{fails, silent}, "answers SERVFAIL to web."},
		"nobody answers":          {"web.", []netip.AddrPort{silent}, "does not answer about web."},
		"silent about AAAA":       {"half.example.test.", []netip.AddrPort{knows, silent, silent}, "127.0.0.1"},
		"it is there without any": {"web.example.test.aaaa.", []netip.AddrPort{knows}, "no A or AAAA record for it"},
	} {
		addrs, by, r := resolver{servers: c.servers, search: []string{"example.test."}, ndots: 1}.find(t.Context(),
			c.host, 100*time.Millisecond)
		if len(addrs) > 0 {
			r.Saw = addrs[0].String()
		}
		if !strings.Contains(r.Saw, c.want) || len(addrs) > 0 && by != knows.String() {
			t.Errorf("%s: %v by %s: %s", name, addrs, by, r.Saw)
		}
	}
	over, cancel := context.WithCancel(t.Context())
	cancel()
	_, _, r := resolver{servers: []netip.AddrPort{knows}}.find(over, "web", time.Second)
	wants(t, r, probe.Unknown, "stopped before web was looked up")
}

// closedPort returns an address without a listener, over TCP or UDP.
func closedPort(t *testing.T) string {
	t.Helper()
	l := must.Get(net.Listen("tcp", "127.0.0.1:0"))(t)
	l.Close()
	return l.Addr().String()
}

func TestResolver(t *testing.T) {
	t.Parallel()
	r := parseResolver([]byte("# x\nnameserver 10.0.0.1\nnameserver fd00::a\nnameserver bad\nnameserver 10.0.0.4\nsearch a.test b.test.\noptions ndots:5\n"))
	if len(r.servers) != 2 || r.servers[1].String() != "[fd00::a]:53" || r.ndots != 5 ||
		!slices.Equal(r.search, []string{"a.test.", "b.test."}) {
		t.Errorf("%+v", r)
	}
	if got := r.candidates("x.y.", false); !slices.Equal(got, []string{"x.y.a.test.", "x.y.b.test.", "x.y."}) {
		t.Error(got)
	}
	if got := r.candidates("a.b.c.d.e.f.", false); got[0] != "a.b.c.d.e.f." || len(got) != 3 {
		t.Error(got)
	}
	if got := r.candidates("x.", true); len(got) != 1 {
		t.Error(got)
	}
	if r := parseResolver(nil); r.servers[0] != netip.MustParseAddrPort("127.0.0.1:53") {
		t.Errorf("%+v", r)
	}
}

func FuzzResolver(f *testing.F) {
	f.Add("nameserver 10.0.0.1\nsearch a b\noptions ndots:2", "web.example")
	f.Add("search .. \nnameserver %", "a..b")
	f.Fuzz(func(t *testing.T, text, name string) {
		if _, ok := dns.IsDomainName(name); !ok {
			return
		}
		for _, c := range parseResolver([]byte(text)).candidates(dns.Fqdn(name), false) {
			if _, ok := dns.IsDomainName(c); !ok {
				t.Errorf("%q asks for %q", name, c)
			}
		}
	})
}

// TestInPod checks that a name is resolved as a program in a pod does: with few dots, in the pod's search list first.
func TestInPod(t *testing.T) {
	t.Parallel()
	h := &probe.Host{Root: files(t, map[string]string{
		"var/lib/kubelet/config.yaml": "clusterDomain: cluster.test\n", "etc/resolv.conf": "search corp.test\n",
	})}
	const list = " NAME.shop.svc.cluster.test. NAME.svc.cluster.test. NAME.cluster.test. NAME.corp.test."
	listed := func(name string) string { return strings.ReplaceAll(list, "NAME", name) + " " + name + "." }
	for typed, want := range map[string]string{
		"web": listed("web"), "example.com": listed("example.com"), "example.com.": " example.com.",
		"web.shop.svc.cluster.test": " web.shop.svc.cluster.test.",
		"a.b.c.d.e.f":               " a.b.c.d.e.f." + strings.ReplaceAll(list, "NAME", "a.b.c.d.e.f"),
	} {
		l := lookup{DNSArgs: tools.DNSArgs{Namespace: "shop"}, name: dns.Fqdn(typed), typedDot: strings.HasSuffix(typed, "."),
			types: []uint16{dns.TypeA}}
		if got := " " + strings.Join(inPod(h, l), " "); got != want {
			t.Errorf("%s: %s, want %s", typed, got, want)
		}
	}
}
