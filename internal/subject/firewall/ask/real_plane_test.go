//go:build e2e

package ask

import (
	"testing"

	"github.com/calico-probe/calico-probe/internal/subject/firewall"
	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/probe/checktest"
	"github.com/calico-probe/calico-probe/probe/kernel"
	"github.com/calico-probe/calico-probe/probe/nstest"
)

// TestRealFirewall adds Calico's chains to each of Linux's firewalls, and to two at once.
func TestRealFirewall(t *testing.T) {
	if !nstest.Enter(t, checktest.Furniture+"ip link add cali0123456789a type veth peer name pod1\n") {
		return
	}
	h := &probe.Host{Root: "/", Proc: "/proc"}
	ask := func(settings ...string) []probe.Result {
		return checktest.Run(t, nodeFirewallCheck, h, checktest.FelixWith(settings...))
	}
	checktest.Want(t, ask(), "IPv4", probe.Fail, "no firewall has Calico's chains, but this node has 1 pod interfaces")
	checktest.Want(t, checktest.Run(t, nodeFirewallCheck, h), "IPv4", probe.Info, "no firewall has Calico's chains") // the data plane is unknown
	checktest.Want(t, ask("bpfEnabled", "true"), "", probe.Skip, "eBPF")

	checktest.Do(t, "iptables-legacy -N cali-FORWARD", "iptables-legacy -N cali-INPUT",
		"iptables-legacy -A FORWARD -s 10.0.0.0/8 -m comment --comment other -j RETURN",
		"ip6tables-legacy -N cali-FORWARD")
	got := ask()
	checktest.Want(t, got, "IPv4", probe.Fail, "Calico's chains are in legacy iptables, but no FORWARD rule jumps to them")
	checktest.Want(t, got, "IPv6", probe.Fail, "no FORWARD rule jumps to them")
	checktest.Do(t, "iptables-legacy -A FORWARD -j cali-FORWARD", "ip6tables-legacy -I FORWARD -j cali-FORWARD")
	got = ask()
	r := checktest.Want(t, got, "IPv4", probe.OK, "in use only in legacy iptables")
	if n, _ := r.Facts[factChains].(map[string]int); n[inLegacy] != 2 {
		t.Errorf("%+v", r.Facts)
	}
	checktest.Want(t, got, "IPv6", probe.OK, "in use only in legacy iptables")

	// Docker uses the other backend
	checktest.Do(t, "iptables-nft -P FORWARD DROP")
	checktest.Want(t, ask(), "IPv4", probe.Warn,
		"the default policy of FORWARD of iptables-nft drops packets that no rule there accepts, and Calico's chains are in legacy iptables")
	checktest.Do(t, "iptables-nft -P FORWARD ACCEPT", "iptables-legacy -P FORWARD DROP")
	checktest.Want(t, ask(), "IPv4", probe.OK, "only in legacy iptables") // Calico accepts its packets in this firewall
	checktest.Do(t, "iptables-nft -t nat -N KUBE-SERVICES")
	checktest.Want(t, ask(), "IPv4", probe.Info, "kube-proxy's chains are in iptables-nft")

	checktest.Do(t, "iptables-nft -N cali-FORWARD")
	checktest.Want(t, ask(), "IPv4", probe.Info, "unused chains remain in iptables-nft")
	checktest.Do(t, "iptables-nft -I FORWARD -j cali-FORWARD")
	r = checktest.Want(t, ask(), "IPv4", probe.Fail,
		"forwarded packets pass Calico's chains in legacy iptables and in iptables-nft")
	if in, _ := r.Facts[firewall.FactInUse].([]string); len(in) != 2 {
		t.Errorf("%+v", r.Facts)
	}
	checktest.Do(t, "ip6tables-legacy -F", "ip6tables-legacy -X")
	six := checktest.Run(t, nodeFirewallCheck, h, checktest.FelixWith(), checktest.At(probe.KindSelf, "a", "fd09::1"))
	checktest.Want(t, six, "IPv6", probe.Fail, "no firewall has Calico's chains") // Calico has IPv6, so its chains are missing
	if got := ask(); len(got) != 1 {
		t.Errorf("without IPv6: %+v", got)
	}
	checktest.Do(t, "iptables-legacy -F", "iptables-legacy -X", "iptables-legacy -P FORWARD ACCEPT")
	checktest.Want(t, ask(), "IPv4", probe.OK, "in use only in iptables-nft")

	// Felix's own table in nftables mode
	checktest.Do(t, "iptables-nft -F", "iptables-nft -X", "iptables-nft -t nat -X", "nft add table ip calico",
		"nft add chain ip calico filter-cali-FORWARD",
		"nft add chain ip calico filter-FORWARD { type filter hook forward priority 0 ; policy accept ; }",
		"nft add rule ip calico filter-FORWARD jump filter-cali-FORWARD")
	checktest.Want(t, ask(), "IPv4", probe.OK, "in use only in nftables")
	checktest.Do(t, "nft add table inet mine",
		"nft add chain inet mine f { type filter hook forward priority 0 ; policy drop ; }")
	r = checktest.Want(t, ask(), "IPv4", probe.Info, "in use only in nftables", "dropped by the default policy of f of nftables' table mine") // an administrator's table, assumed to accept pods
	if drops, _ := r.Facts[firewall.FactDrops].([]string); len(drops) != 1 || drops[0] != "f of nftables' table mine" {
		t.Errorf("%+v", r.Facts)
	}
}

// TestRealFirewallWithoutNetAdmin expects a skip if the firewall is unreadable.
func TestRealFirewallWithoutNetAdmin(t *testing.T) {
	if !checktest.WithoutNetAdmin(t) {
		return
	}
	h := &probe.Host{Root: "/", Proc: "/proc"}
	checktest.Want(t, checktest.Run(t, nodeFirewallCheck, h, checktest.FelixWith()), "", probe.Skip, "without the capability NET_ADMIN")
	if _, err := kernel.LegacyChains(h, "filter"); err == nil {
		t.Error("legacy iptables could be read")
	}
}
