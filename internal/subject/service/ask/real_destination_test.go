//go:build e2e

package ask

import (
	"crypto/tls"
	"io"
	"net"
	"net/http"
	"os/exec"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/miekg/dns"

	"github.com/calico-probe/calico-probe/internal/subject/service"
	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/probe/checktest"
	"github.com/calico-probe/calico-probe/probe/kernel"
	"github.com/calico-probe/calico-probe/probe/must"
	"github.com/calico-probe/calico-probe/probe/nstest"
)

// serviceNode is a node with the API server and the cluster's DNS on itself, and kube-proxy's rules for them.
const serviceNode = `
ip link set lo up
ip link add eth0 type veth peer name far
ip addr add 10.88.0.11/24 dev eth0
ip link set eth0 up
ip link set far up
ip route add default via 10.88.0.1
ip neigh add 10.88.0.1 lladdr 02:00:00:00:00:01 dev eth0
ip route add blackhole 10.244.1.0/26
nft add table ip calico
nft add chain ip calico filter-cali-OUTPUT { type filter hook output priority 0 ; }
nft add rule ip calico filter-cali-OUTPUT ct state established,related accept
nft add table ip kube-proxy
nft add chain ip kube-proxy nat-output { type nat hook output priority -100 ; }
nft add rule ip kube-proxy nat-output ip daddr 10.96.0.1 tcp dport 443 dnat to 10.88.0.11:6443
nft add rule ip kube-proxy nat-output ip daddr 10.96.0.10 udp dport 53 dnat to 10.88.0.11:5353
nft add rule ip kube-proxy nat-output ip daddr 10.96.0.10 tcp dport 53 dnat to 10.88.0.11:5353
`

const (
	theAPI = "default/kubernetes 10.96.0.1:443 tcp"
	theDNS = "DNS 10.96.0.10:53 udp"
)

// followServices traces the API's Service and cluster DNS.
func followServices(t *testing.T) []probe.Result {
	t.Helper()
	return checktest.Run(t, serviceDestinationCheck, &probe.Host{Root: t.TempDir(), Proc: "/proc"},
		checktest.Port(checktest.At(probe.KindDatastore, "service", "10.96.0.1"), 443),
		checktest.Port(checktest.At(probe.KindDatastore, "endpoint", "10.88.0.11"), 6443),
		checktest.Port(checktest.At(probe.KindDNS, "service", "10.96.0.10"), 53),
		checktest.Port(checktest.At(probe.KindDNS, "endpoint", "10.88.0.11"), 5353))
}

// aServer accepts TLS with a certificate for a name.
func aServer(t *testing.T, address, name string) {
	t.Helper()
	l := must.Get(tls.Listen("tcp", address, &tls.Config{
		Certificates: []tls.Certificate{checktest.Certificate(t, name, time.Now().Add(time.Hour))}}))(t)
	ended := probe.Async(func() error {
		for {
			c, err := l.Accept()
			if err != nil {
				return nil
			}
			_ = c.(*tls.Conn).SetDeadline(time.Now().Add(time.Second))
			_, _ = c.Read(make([]byte, 512)) // the request does not matter
			_, _ = c.Write([]byte("HTTP/1.1 401 Unauthorized\r\nContent-Length: 0\r\n\r\n"))
			c.Close()
		}
	})
	t.Cleanup(func() { l.Close(); <-ended })
}

// aNameServer answers every query with an address.
func aNameServer(t *testing.T, address string) {
	t.Helper()
	c := must.Get(net.ListenPacket("udp", address))(t)
	s := &dns.Server{PacketConn: c, Handler: dns.HandlerFunc(func(w dns.ResponseWriter, q *dns.Msg) {
		m := new(dns.Msg).SetReply(q)
		rr, _ := dns.NewRR(q.Question[0].Name + " A 10.96.0.1")
		m.Answer = append(m.Answer, rr)
		_ = w.WriteMsg(m)
	})}
	ended := probe.Async(s.ActivateAndServe)
	t.Cleanup(func() { _ = s.Shutdown(); <-ended })
}

// aKubeProxy serves kube-proxy's mode.
func aKubeProxy(t *testing.T) *atomic.Value {
	t.Helper()
	mode := &atomic.Value{}
	l := must.Get(net.Listen("tcp", metrics))(t)
	says := func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, mode.Load().(string)) }
	s := &http.Server{ReadHeaderTimeout: time.Second, Handler: http.HandlerFunc(says)}
	ended := probe.Async(func() error { return s.Serve(l) })
	t.Cleanup(func() { s.Close(); <-ended })
	return mode
}

// TestRealDestination redirects connections to Services by foreign rules, one kind after the other.
func TestRealDestination(t *testing.T) {
	if !nstest.Enter(t, serviceNode) {
		return
	}
	aServer(t, "10.88.0.11:6443", "kubernetes.default.svc")
	aServer(t, "10.88.0.11:10250", "node-a") // a kubelet's
	aNameServer(t, "10.88.0.11:5353")

	got := followServices(t)
	checktest.Want(t, got, theAPI, probe.OK, "10.96.0.1:443 leads to 10.88.0.11:6443, an endpoint of the service")
	checktest.Want(t, got, theDNS, probe.OK, "10.96.0.10:53 leads to 10.88.0.11:5353")
	// TCP is refused there, and the kernel forgets it.
	checktest.Want(t, got, "DNS 10.96.0.10:53 tcp", probe.OK, "10.96.0.10:53 leads to 10.88.0.11:5353")

	checktest.Do(t, "nft add table ip agent", "nft add chain ip agent out { type nat hook output priority -110 ; }",
		"nft add rule ip agent out ip daddr 10.96.0.1 tcp dport 443 dnat to 10.88.0.11:10250")
	r := checktest.Want(t, followServices(t), theAPI, probe.Fail,
		"10.96.0.1:443 leads to 10.88.0.11:10250, which is not an endpoint of the service (10.88.0.11:6443); nftables rule: "+
			"ip agent out: to 10.96.0.1/32 tcp port 443 dnat to 10.88.0.11:10250")
	if r.Facts.Str(service.FactSentTo) != "10.88.0.11:10250" || r.Facts.Str(probe.FactRawTable) != "ip agent" ||
		r.Facts.Str(probe.FactChain) != "out" || r.Facts.Str(service.FactWall) != kernel.WallNative {
		t.Errorf("%v", r.Facts)
	}
	checktest.Do(t, "nft flush chain ip agent out", "nft add rule ip agent out tcp dport 443 redirect to :1")
	checktest.Want(t, followServices(t), theAPI, probe.Fail, "leads to 127.0.0.1:1,", "redirect to :1")

	// Another program serves the Service, as intended.
	aServer(t, "10.88.0.11:8443", "kubernetes.default.svc")
	checktest.Do(t, "nft flush chain ip agent out",
		"nft add rule ip agent out ip daddr 10.96.0.1 tcp dport 443 dnat to 10.88.0.11:8443",
		"nft add rule ip agent out udp dport 53 redirect to :5300")
	aNameServer(t, "127.0.0.1:5300")
	got = followServices(t)
	checktest.Want(t, got, theAPI, probe.Info, "leads to 10.88.0.11:8443", "can serve the Service's clients")
	checktest.Want(t, got, theDNS, probe.Info, "leads to 127.0.0.1:5300", "can serve the Service's clients")
	checktest.Do(t, "nft delete table ip agent")

	checktest.Do(t, "nft flush table ip kube-proxy")
	got = followServices(t)
	checktest.Want(t, got, theAPI, probe.Info, "no kube-proxy rule translates it")
	checktest.Want(t, got, theDNS, probe.Info, "no kube-proxy rule translates it")
	// Rules that are old, and no foreign rule.
	checktest.Do(t, "nft add rule ip kube-proxy nat-output ip daddr 10.96.0.1 tcp dport 443 dnat to 10.88.0.11:10250",
		"nft add table ip raw2", "nft add chain ip raw2 out { type filter hook output priority -300 ; }",
		"nft add rule ip raw2 out ip daddr 10.96.0.10 notrack")
	got = followServices(t)
	checktest.Want(t, got, theAPI, probe.Info, "which is not an endpoint of the service (10.88.0.11:6443); no foreign rule")
	checktest.Want(t, got, theDNS, probe.Info, "go: the kernel does not track this connection")
}

// TestRealDestinationIptables does the same with both iptables variants: REDIRECT, and the leftover chain of a
// hostPort.
func TestRealDestinationIptables(t *testing.T) {
	for _, program := range []string{"iptables-legacy", "iptables-nft"} {
		t.Run(program, func(t *testing.T) {
			if !nstest.Enter(t, serviceNode) {
				return
			}
			aServer(t, "10.88.0.11:6443", "kubernetes.default.svc")
			wall := map[string]string{"iptables-legacy": "legacy iptables", "iptables-nft": "iptables-nft"}[program]
			checktest.Do(t, "nft flush table ip kube-proxy",
				program+" -t nat -N KUBE-SEP-A", program+" -t nat -A KUBE-SEP-A -p tcp -j DNAT --to-destination 10.88.0.11:6443",
				program+" -t nat -A OUTPUT -d 10.96.0.1 -p tcp --dport 443 -j KUBE-SEP-A")
			checktest.Want(t, followServices(t), theAPI, probe.OK, "leads to 10.88.0.11:6443")

			// A kube-proxy in iptables mode keeps its rules up to date. They are leftovers if it uses nftables now.
			sep := program + " -t nat -R KUBE-SEP-A 1 -p tcp -j DNAT --to-destination 10.88.0.11:"
			checktest.Do(t, sep+"10250")
			mode := aKubeProxy(t)
			for says, want := range map[string]probe.Status{"iptables": probe.Info, "nftables": probe.Fail} {
				mode.Store(says)
				r := checktest.Want(t, followServices(t), theAPI, want, "leads to 10.88.0.11:10250, which is not an endpoint")
				if left := r.Facts.Str(service.FactMeans) == service.MeansLeft; left != (want == probe.Fail) {
					t.Errorf("%s: %v", says, r)
				}
			}
			// The present kube-proxy writes its rules with the other kind of iptables.
			other := map[string]string{"iptables-legacy": "iptables-nft", "iptables-nft": "iptables-legacy"}[program]
			checktest.Do(t, other+" -t nat -N KUBE-SEP-B",
				other+" -t nat -A KUBE-SEP-B -p tcp -j DNAT --to-destination 10.88.0.11:6443")
			mode.Store("iptables")
			checktest.Want(t, followServices(t), theAPI, probe.Fail, wall+" rule: ip nat KUBE-SEP-A: tcp dnat to 10.88.0.11:10250")
			checktest.Do(t, sep+"6443")

			checktest.Do(t, program+" -t nat -I OUTPUT -p udp --dport 53 -j REDIRECT --to-ports 15053")
			checktest.Want(t, followServices(t), theDNS, probe.Fail, "10.96.0.10:53 leads to 127.0.0.1:15053",
				wall+" rule: ip nat OUTPUT: udp port 53 redirect to :15053")

			// With IPVS, Service addresses are the node's own, and a hostPort rule matches all of them.
			checktest.Do(t, "ip link add kube-ipvs0 type veth peer name ipvs", "ip addr add 10.96.0.1/32 dev kube-ipvs0",
				program+" -t nat -N CNI-HOSTPORT-DNAT", program+" -t nat -N CNI-DN-7a31",
				program+" -t nat -I OUTPUT -m addrtype --dst-type LOCAL -j CNI-HOSTPORT-DNAT",
				program+" -t nat -A CNI-HOSTPORT-DNAT -p tcp -m multiport --dports 443 -j CNI-DN-7a31",
				program+" -t nat -A CNI-DN-7a31 -p tcp -m tcp --dport 443 -j DNAT --to-destination 10.244.7.5:8443")
			r := checktest.Want(t, followServices(t), theAPI, probe.Fail, "10.96.0.1:443 leads to 10.244.7.5:8443, which is not an endpoint",
				"ip nat CNI-DN-7a31: tcp port 443 dnat to 10.244.7.5:8443")
			if n, _ := r.Facts.Num(service.FactHandle); r.Facts.Str(probe.FactChain) != "CNI-DN-7a31" || n < 1 {
				t.Errorf("%v", r.Facts)
			}
			// The deleted pod was in this node's own block, which has a blackhole route.
			checktest.Do(t, program+" -t nat -F CNI-DN-7a31",
				program+" -t nat -A CNI-DN-7a31 -p tcp -m tcp --dport 443 -j DNAT --to-destination 10.244.1.5:8443")
			checktest.Want(t, followServices(t), theAPI, probe.Fail, "10.96.0.1:443 leads to 10.244.1.5:8443: this node has no route to it",
				"ip nat CNI-DN-7a31: tcp port 443 dnat to 10.244.1.5:8443")
			checktest.Do(t, program+" -t nat -F CNI-HOSTPORT-DNAT")
			checktest.Want(t, followServices(t), theAPI, probe.OK, "leads to 10.88.0.11:6443")
		})
	}
}

// TestRealDestinationHere redirects a Service to the node itself: by a route in table local, and by TPROXY.
func TestRealDestinationHere(t *testing.T) {
	if !nstest.Enter(t, serviceNode+"nft flush table ip kube-proxy\n") {
		return
	}
	aServer(t, ":443", "ingress")
	checktest.Do(t, "ip route add local 10.96.0.1 dev lo proto 66")
	r := checktest.Want(t, followServices(t), theAPI, probe.Fail, "10.96.0.1:443 leads to this node itself", "local 10.96.0.1", "proto 66")
	if r.Facts.Str(service.FactMeans) != service.MeansRoute {
		t.Errorf("%v", r.Facts)
	}
	checktest.Do(t, "ip addr add 10.96.0.1/32 dev lo")
	checktest.Want(t, followServices(t), theAPI, probe.Info, "its interface lo has that address")
	checktest.Do(t, "ip addr del 10.96.0.1/32 dev lo")
	for exec.Command("ip", "route", "del", "local", "10.96.0.1").Run() == nil { // the address's own route, and ours
	}

	transparent := net.ListenConfig{Control: func(_, _ string, c syscall.RawConn) error {
		var failed error
		if err := c.Control(func(fd uintptr) {
			failed = syscall.SetsockoptInt(int(fd), syscall.SOL_IP, syscall.IP_TRANSPARENT, 1)
		}); err != nil {
			return err
		}
		return failed
	}}
	l := must.Get(transparent.Listen(t.Context(), "tcp4", "127.0.0.1:15006"))(t)
	defer l.Close()
	checktest.Do(t, strings.Split(`ip rule add fwmark 7 lookup 100
ip route add local default dev lo table 100
nft add table ip proxy
nft add chain ip proxy out { type route hook output priority -150 ; }
nft add rule ip proxy out ip daddr 10.96.0.1 tcp dport 443 meta mark set 7
nft add chain ip proxy in { type filter hook prerouting priority -150 ; }
nft add rule ip proxy in iifname lo ip daddr 10.96.0.1 tcp dport 443 tproxy to 127.0.0.1:15006 meta mark set 7 accept`, "\n")...)
	r = checktest.Want(t, followServices(t), theAPI, probe.Fail, "10.96.0.1:443 leads to a proxy on this node",
		"ip proxy in: in lo to 10.96.0.1/32 tcp port 443 tproxy to 127.0.0.1:15006")
	if r.Facts.Str(service.FactMeans) != kernel.DoesTProxy || r.Facts.Str(service.FactSentTo) != "127.0.0.1:15006" {
		t.Errorf("%v", r.Facts)
	}
}
