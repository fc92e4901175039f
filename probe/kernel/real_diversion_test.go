//go:build e2e

package kernel

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/probe/must"
	"github.com/calico-probe/calico-probe/probe/nstest"
)

// TestRealDiversions checks for the rules of each firewall, without kube-proxy's and Calico's.
func TestRealDiversions(t *testing.T) {
	script := `ip link set lo up
nft add table ip agent
nft add chain ip agent out { type nat hook output priority -101 ; }
nft add chain ip agent in { type filter hook prerouting priority mangle ; }
nft add rule ip agent out ip daddr 10.96.0.1 tcp dport 443 counter dnat to 10.88.0.12:10250
nft add rule ip agent out tcp dport { 80, 81 } redirect to :15001
nft add rule ip agent in ip daddr 10.96.0.10 udp dport 53 tproxy to 127.0.0.1:15053 meta mark set 1
nft add rule ip agent out ip daddr 10.97.0.0/16 dnat to 10.1.0.1-10.1.0.9
nft add table ip kube-proxy
nft add chain ip kube-proxy service
nft add rule ip kube-proxy service ip daddr 10.96.0.1 tcp dport 443 dnat to 10.88.0.1:6443
`
	for _, program := range []string{"iptables-nft", "iptables-legacy"} {
		for line := range strings.Lines(`-N CNI-DN-1f2e
-A CNI-DN-1f2e -p tcp --dport 443 -j DNAT --to-destination 10.244.1.5:8443
-A OUTPUT -m addrtype --dst-type LOCAL -j CNI-DN-1f2e
-A OUTPUT -d 10.96.0.10 -p udp -m udp --dport 53 -j REDIRECT --to-ports 5353
-N KUBE-SEP-X
-A KUBE-SEP-X -p tcp -j DNAT --to-destination 10.244.0.2:53
-N cali-fip-dnat
-A cali-fip-dnat -d 10.0.0.9 -j DNAT --to-destination 10.244.0.2
`) {
			script += program + " -t nat " + line
		}
		script += program + " -t mangle -A PREROUTING -d 10.96.0.1 -p tcp --dport 443 -j TPROXY --on-port 15006 --on-ip 127.0.0.1 --tproxy-mark 1\n"
	}
	script += "ip6tables-legacy -t nat -A OUTPUT -d fd00:10:96::1 -p tcp --dport 443 -j DNAT --to-destination [fd00::7]:10250\n" +
		"ip6tables-nft -t nat -A OUTPUT -d fd00:10:96::1 -p tcp --dport 443 -j DNAT --to-destination [fd00::7]:10250\n"
	if !nstest.Enter(t, script) {
		return
	}
	all := must.Get(Diversions(&probe.Host{Proc: "/proc"}, Foreign))(t)
	var got []string
	for _, r := range all {
		words := r.Wall + ", " + r.TableFamily + " " + r.String()
		if r.Partly {
			words += " (partly)"
		}
		if r.Handle == 0 {
			t.Errorf("%s: without a number", words)
		}
		got = append(got, words)
	}
	want := []string{
		"nftables, ip agent out: to 10.96.0.1/32 tcp port 443 dnat to 10.88.0.12:10250",
		"nftables, ip agent out: tcp redirect to :15001 (partly)",
		"nftables, ip agent in: to 10.96.0.10/32 udp port 53 tproxy to 127.0.0.1:15053",
		"nftables, ip agent out: to 10.97.0.0/16 dnat",
	}
	for _, wall := range []string{WallNFT, WallLegacy} {
		want = append(want,
			wall+", ip nat CNI-DN-1f2e: tcp port 443 dnat to 10.244.1.5:8443",
			wall+", ip nat OUTPUT: to 10.96.0.10/32 udp port 53 redirect to :5353",
			wall+", ip mangle PREROUTING: to 10.96.0.1/32 tcp port 443 tproxy to 127.0.0.1:15006",
			wall+", ip6 nat OUTPUT: to fd00:10:96::1/128 tcp port 443 dnat to [fd00::7]:10250")
	}
	slices.Sort(got)
	slices.Sort(want)
	if !slices.Equal(got, want) {
		t.Errorf("got:\n%s\nwant:\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// TestRealSentTo follows connections whose destination a rule changes: accepted, refused, and over UDP.
func TestRealSentTo(t *testing.T) {
	if !nstest.Enter(t, `ip link set lo up
ip addr add 192.0.2.1/24 dev lo
ip addr add 2001:db8::1/64 dev lo nodad
ip route add 10.96.0.0/16 dev lo
ip -6 route add fd00:10:96::/64 dev lo
nft add table inet t
nft add chain inet t out { type nat hook output priority -100 ; }
nft add rule inet t out ip daddr 10.96.0.1 tcp dport 443 redirect to :7443
nft add rule inet t out ip daddr 10.96.0.2 tcp dport 443 redirect to :1
nft add rule inet t out ip daddr 10.96.0.10 udp dport 53 dnat ip to 192.0.2.1:5353
nft add rule inet t out ip6 daddr fd00:10:96::1 tcp dport 443 dnat ip6 to [2001:db8::1]:7443
`) {
		return
	}
	l, err := net.Listen("tcp", ":7443")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	near := func(c net.Conn) netip.AddrPort { return netip.MustParseAddrPort(c.LocalAddr().String()) }
	for to, want := range map[string]string{
		"tcp 10.96.0.1:443": "127.0.0.1:7443", "tcp [fd00:10:96::1]:443": "[2001:db8::1]:7443",
		"udp 10.96.0.10:53": "192.0.2.1:5353", "tcp 192.0.2.1:7443": "192.0.2.1:7443",
	} {
		network, address, _ := strings.Cut(to, " ")
		c, err := net.Dial(network, address)
		if err != nil {
			t.Fatalf("%s: %v", to, err)
		}
		defer c.Close()
		if _, err := c.Write([]byte("x")); err != nil {
			t.Fatalf("%s: %v", to, err)
		}
		proto := map[string]int{"tcp": 6, "udp": 17}[network]
		got, err := SentTo(Flow{Proto: proto, From: near(c), To: netip.MustParseAddrPort(address)})
		if err != nil || got.String() != want {
			t.Errorf("%s goes to %v (%v), want %s", to, got, err, want)
		}
	}
	unknown := Flow{Proto: 6, From: netip.MustParseAddrPort("192.0.2.1:1"), To: netip.MustParseAddrPort("10.96.0.1:443")}
	if _, err := SentTo(unknown); !errors.Is(err, ErrNotTracked) {
		t.Errorf("a connection that is none: %v", err)
	}
	w, err := WatchConnections()
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	refused := Flow{Proto: 6, From: netip.MustParseAddrPort("0.0.0.0:40123"), To: netip.MustParseAddrPort("10.96.0.2:443")}
	d := net.Dialer{LocalAddr: net.TCPAddrFromAddrPort(refused.From)}
	if _, err := d.Dial("tcp", refused.To.String()); !errors.Is(err, syscall.ECONNREFUSED) {
		t.Fatal(err)
	}
	got, err := w.SentTo(t.Context(), refused)
	if err != nil || got.String() != "127.0.0.1:1" {
		t.Errorf("a refused one goes to %v: %v", got, err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	if _, err := w.SentTo(ctx, unknown); !errors.Is(err, ErrNotTracked) {
		t.Errorf("a new connection that is none: %v", err)
	}
}
