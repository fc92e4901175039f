//go:build e2e

package ask

import (
	"fmt"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/miekg/dns"

	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/probe/checktest"
	"github.com/calico-probe/calico-probe/probe/must"
	"github.com/calico-probe/calico-probe/probe/node"
	"github.com/calico-probe/calico-probe/probe/nstest"
)

// A pod of this node for the cluster's DNS, beside two nodes.
const dnsPod = checktest.TwoNodes + `
ip netns add dns
ip link add cali1 type veth peer name eth0 netns dns
ip link set cali1 up
ip -n dns link set lo up
ip -n dns addr add 10.244.0.7/32 dev eth0
ip -n dns link set eth0 up
ip -n dns route add 10.9.0.1 dev eth0
ip -n dns route add default via 10.9.0.1
ip route add 10.244.0.7 dev cali1
ip -n router route add 10.244.0.0/24 via 10.9.0.1
sysctl -qw net.ipv4.ip_forward=1
ip netns exec router nft add table ip t
ip netns exec router nft add chain ip t f { type filter hook forward priority 0 ; }
`

// outsideWorld is a name server on the other node. It stands in for the company's server and for the cluster's zone,
// because no daemon here can serve a root zone. The test sets its answer for the root zone.
type outsideWorld struct {
	root  atomic.Int32 // the rcode
	large atomic.Bool  // its answer does not fit into UDP
	corp  atomic.Int32 // the rcode for names in corp.example
}

func (o *outsideWorld) ServeDNS(w dns.ResponseWriter, q *dns.Msg) {
	a := new(dns.Msg).SetReply(q)
	name := q.Question[0].Name
	switch {
	case name == ".":
		a.Rcode = int(o.root.Load())
		n := 1
		if o.large.Load() {
			n = 40
		}
		for i := range n {
			if rr, err := dns.NewRR(fmt.Sprintf(". 5 IN NS %c%d.root-servers.example.", 'a'+i%26, i)); err == nil &&
				a.Rcode == 0 {
				a.Answer = append(a.Answer, rr)
			}
		}
	case strings.HasSuffix(name, "corp.example."):
		a.Rcode = int(o.corp.Load())
		if rr, err := dns.NewRR(name + " 5 IN A 192.0.2.1"); err == nil && a.Rcode == 0 {
			a.Answer = []dns.RR{rr}
		}
	default:
		a.Rcode = dns.RcodeNameError
	}
	if w.RemoteAddr().Network() == "udp" {
		a.Truncate(dns.MinMsgSize)
	}
	_ = w.WriteMsg(a) // the client may have closed the connection
}

func (o *outsideWorld) serve(t *testing.T, netns, addr string) {
	t.Helper()
	checktest.In(t, netns, func() error {
		l, err := net.Listen("tcp", addr)
		if err != nil {
			return err
		}
		u, err := net.ListenPacket("udp", addr)
		if err != nil {
			return err
		}
		for _, s := range []*dns.Server{{Listener: l, Handler: o}, {PacketConn: u, Handler: o}} {
			go func() { _ = s.ActivateAndServe() }() // until it is shut down
			t.Cleanup(func() { _ = s.Shutdown() })
		}
		return nil
	})
}

// coreDNS starts a real CoreDNS in a network namespace and returns a function that stops it.
func coreDNS(t *testing.T, netns, corefile string) (stop func()) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "Corefile")
	must.Do(t, os.WriteFile(file, []byte(corefile), 0o600))
	cmd := exec.Command("ip", "netns", "exec", netns, checktest.Part(t, "bin/coredns"), "-conf", file)
	var output strings.Builder
	cmd.Stdout, cmd.Stderr = &output, &output
	must.Do(t, cmd.Start())
	stopped := false
	stop = func() {
		if !stopped {
			stopped = true
			_ = cmd.Process.Kill() // ip has become coredns
			_ = cmd.Wait()
		}
	}
	t.Cleanup(func() {
		stop()
		if t.Failed() {
			t.Logf("coredns logged:\n%s", output.String())
		}
	})
	return stop
}

// until repeats the check until one result is as expected.
func until(t *testing.T, ask func() []probe.Result, ok func(probe.Result) bool) {
	t.Helper()
	checktest.Eventually(t, func() bool { return slices.ContainsFunc(ask(), ok) })
}

const forwards = `.:53 {
	errors
	forward . 10.9.1.2
}`

// TestRealDNSExternal removes the upstream of a real CoreDNS, and then the outside of all servers.
func TestRealDNSExternal(t *testing.T) {
	if !nstest.Enter(t, dnsPod) {
		return
	}
	world := &outsideWorld{}
	world.serve(t, "far", "10.9.1.2:53")
	world.corp.Store(dns.RcodeNameError)
	stop := coreDNS(t, "dns", forwards)
	h := checktest.Node(t, map[string]string{
		"etc/resolv.conf":             "nameserver 127.0.0.53\n",
		"run/resolve/resolv.conf":     "nameserver 10.9.1.2\nsearch corp.example\n",
		"var/lib/kubelet/config.yaml": "clusterDomain: cluster.local\nclusterDNS: [10.244.0.7]\nresolvConf: /run/resolve/resolv.conf\n",
	})
	const own, cluster, search = "resolv.conf 10.9.1.2:53", "clusterDNS 10.244.0.7:53",
		"search list of clusterDNS 10.244.0.7:53"
	ask := func() []probe.Result { return checktest.Run(t, dnsExternalCheck, h) }
	until(t, ask, func(r probe.Result) bool { return r.Target == cluster && r.Status == probe.OK })
	got := ask()
	checktest.Want(t, got, own, probe.OK, "names outside the cluster resolve")
	checktest.Want(t, got, cluster, probe.OK, "names outside the cluster resolve")
	checktest.Want(t, got, search, probe.OK, "costs a pod (ndots:5) 4 extra queries")

	// The search list has a broken domain, and one with a wildcard.
	world.corp.Store(dns.RcodeServerFailure)
	checktest.Want(t, ask(), search, probe.Warn, "corp.example: SERVFAIL")
	world.corp.Store(dns.RcodeSuccess)
	checktest.Want(t, ask(), search, probe.Info, "corp.example answers every name")
	world.corp.Store(dns.RcodeNameError)

	// An isolated cluster is not a fault.
	world.root.Store(dns.RcodeServerFailure)
	got = ask()
	checktest.Want(t, got, own, probe.Info, "names outside the cluster do not resolve: SERVFAIL")
	checktest.Want(t, got, cluster, probe.Info, "SERVFAIL")
	world.root.Store(dns.RcodeRefused)
	checktest.Want(t, ask(), own, probe.Info, "REFUSED: it answers, but is not configured to serve")
	world.root.Store(dns.RcodeSuccess)

	// The answer does not fit into UDP.
	world.large.Store(true)
	got = ask()
	checktest.Want(t, got, own, probe.OK, "names outside the cluster resolve")
	checktest.Want(t, got, cluster, probe.OK, "names outside the cluster resolve")
	checktest.Do(t, "ip netns exec router nft add rule ip t f tcp dport 53 drop")
	checktest.Want(t, ask(), own, probe.Fail, "the UDP answer is truncated; over TCP: no answer from 10.9.1.2:53")
	checktest.Do(t, "ip netns exec router nft flush chain ip t f")
	world.large.Store(false)

	// The outside does not answer pod addresses, as without natOutgoing.
	checktest.Do(t, "ip netns exec router nft add rule ip t f ip saddr 10.244.0.7 drop")
	got = ask()
	checktest.Want(t, got, own, probe.OK, "names outside the cluster resolve")
	checktest.Want(t, got, cluster, probe.Warn, "the node's own name servers resolve external names")
	checktest.Do(t, "ip netns exec router nft flush chain ip t f", "ip netns exec router nft add rule ip t f drop")
	got = ask()
	checktest.Want(t, got, own, probe.Info, "names outside the cluster do not resolve: no answer from 10.9.1.2:53")
	checktest.Do(t, "ip netns exec router nft flush chain ip t f")

	// It does not forward.
	stop()
	checktest.Want(t, ask(), cluster, probe.Warn, "nothing listens", "the node's own name servers resolve external names")
	coreDNS(t, "dns", strings.Replace(forwards, ".:53", "cluster.local:53", 1))
	until(t, ask, func(r probe.Result) bool {
		return r.Target == cluster && r.Status == probe.Info && strings.Contains(r.Saw, "REFUSED")
	})
}

// TestRealDNSCluster queries a real CoreDNS through its Service, its endpoint and the kubelet's own address, and breaks
// one after the other.
func TestRealDNSCluster(t *testing.T) {
	if !nstest.Enter(t, dnsPod+`
ip link add nodelocaldns type veth peer name unused
ip addr add 169.254.20.10/32 dev nodelocaldns
ip link set nodelocaldns up
ip netns add spare
nft add table ip s
nft add chain ip s nat { type nat hook output priority -100 ; }
nft add rule ip s nat ip daddr 10.96.0.10 meta l4proto { tcp, udp } th dport 53 dnat to 10.244.0.7
nft add chain ip s out { type filter hook output priority 0 ; }
ip route add 10.96.0.0/16 via 10.9.0.9
`) {
		return
	}
	hosts := filepath.Join(t.TempDir(), "hosts")
	write := func(n int) {
		t.Helper()
		var text strings.Builder
		for i := range n {
			fmt.Fprintf(&text, "10.96.%d.1 kubernetes.default.svc.cluster.local\n", i)
		}
		// At once: CoreDNS may read it at any time.
		must.Do(t, os.WriteFile(hosts+".new", []byte(text.String()), 0o644))
		must.Do(t, os.Rename(hosts+".new", hosts))
	}
	write(1)
	zone := `cluster.local:53 {
	errors
	hosts ` + hosts + ` {
		reload 100ms
	}
}`
	stop := coreDNS(t, "dns", zone)
	checktest.Do(t, "ip link set unused netns spare")
	h := checktest.Node(t, map[string]string{"var/lib/kubelet/config.yaml": "clusterDomain: cluster.local\nclusterDNS: [169.254.20.10]\n"})
	server := func(name, addr string) probe.Target {
		return probe.Target{Kind: probe.KindDNS, Name: name, Addr: netip.MustParseAddr(addr), Port: 53}
	}
	ask := func() []probe.Result {
		return checktest.Run(t, dnsClusterCheck, h, server("service", "10.96.0.10"), server("endpoint", "10.244.0.7"))
	}
	until(t, ask, func(r probe.Result) bool { return r.Target == "endpoint 10.244.0.7:53 tcp" && r.Status == probe.OK })
	all := []string{"service 10.96.0.10:53", "endpoint 10.244.0.7:53"}
	both := func(got []probe.Result, who string, s probe.Status, saw ...string) {
		t.Helper()
		checktest.Want(t, got, who+" udp", s, saw...)
		checktest.Want(t, got, who+" tcp", s, saw...)
	}
	got := ask()
	for _, who := range all {
		both(got, who, probe.OK, "10.96.0.1 in")
	}
	// NodeLocal DNSCache has died, and comes back.
	const cache = "clusterDNS 169.254.20.10:53"
	both(got, cache, probe.Fail, "refused: nothing listens")
	checktest.Do(t, "ip netns attach node "+strconv.Itoa(os.Getpid()))
	end := coreDNS(t, "node", zone)
	until(t, ask, func(r probe.Result) bool { return r.Target == cache+" tcp" && r.Status == probe.OK })
	both(ask(), cache, probe.OK, "10.96.0.1 in")
	end()

	// More addresses than fit into UDP; then a firewall that knows DNS as UDP alone.
	write(60)
	until(t, ask, func(r probe.Result) bool {
		return r.Target == "service 10.96.0.10:53 udp" && r.Facts[node.FactTruncated] == true && r.Status == probe.OK
	})
	checktest.Do(t, "nft add rule ip s out ip daddr 10.244.0.7 tcp dport 53 drop")
	both(ask(), "service 10.96.0.10:53", probe.Fail, "no answer from 10.96.0.10:53")
	checktest.Want(t, ask(), "service 10.96.0.10:53 udp", probe.Fail, "the UDP answer is truncated; over TCP: no answer")
	checktest.Do(t, "nft flush chain ip s out")
	checktest.Do(t, "nft add rule ip s out ip daddr 10.244.0.7 udp dport 53 drop")
	checktest.Want(t, ask(), "endpoint 10.244.0.7:53 udp", probe.Fail, "rejected locally")
	checktest.Do(t, "nft flush chain ip s out")
	write(1)

	// kube-proxy's rules are gone: the endpoint answers and the service does not.
	checktest.Do(t, "nft flush chain ip s nat")
	got = ask()
	both(got, "endpoint 10.244.0.7:53", probe.OK, "10.96.0.1")
	checktest.Want(t, got, "service 10.96.0.10:53 tcp", probe.Fail, "cannot be reached")

	// The server has another zone, and then none.
	stop()
	both(ask(), "endpoint 10.244.0.7:53", probe.Fail, "refused: nothing listens")
	stop = coreDNS(t, "dns", strings.Replace(zone, "cluster.local:53", "example.org:53", 1))
	until(t, ask, func(r probe.Result) bool {
		return r.Target == "endpoint 10.244.0.7:53 udp" && r.Facts.Str(probe.FactRcode) == "REFUSED"
	})
	checktest.Want(t, ask(), "endpoint 10.244.0.7:53 udp", probe.Fail,
		"REFUSED: it answers, but is not configured to serve that name")
	stop()
	write(0)
	coreDNS(t, "dns", zone)
	until(t, ask, func(r probe.Result) bool {
		return r.Target == "endpoint 10.244.0.7:53 udp" && r.Facts.Str(probe.FactRcode) == "SERVFAIL"
	})
	checktest.Want(t, ask(), "endpoint 10.244.0.7:53 udp", probe.Fail, "SERVFAIL: its upstream")
}
