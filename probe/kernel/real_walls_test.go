//go:build e2e

package kernel

import (
	"slices"
	"strings"
	"testing"

	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/probe/must"
	"github.com/calico-probe/calico-probe/probe/nstest"
)

// TestRealWalls checks for the conditions of rules, all of them, written by both iptables and by nft.
func TestRealWalls(t *testing.T) {
	var script strings.Builder
	for _, program := range []string{"iptables-nft", "iptables-legacy"} {
		for line := range strings.Lines(`-N OTHER
-A POSTROUTING -m comment --comment others -j OTHER
-A OTHER -m mark --mark 0x4000/0x4000 -j RETURN
-A OTHER ! -s 10.244.0.0/16 -d 10.244.0.0/24 -j RETURN
-A OTHER -o eth+ ! -i lo -p icmp -m conntrack --ctstate NEW -j RETURN
-A OTHER -o eth0 ! -p tcp
-A OTHER -p tcp -m multiport --dports 22,6443,30000:32767 -j ACCEPT
-A OTHER -p tcp ! --dport 22 --syn -j RETURN
-A OTHER -p tcp --dport 30000:32767 -j RETURN
-A OTHER -p tcp --tcp-flags ALL NONE -j RETURN
-A OTHER -m state --state ESTABLISHED,RELATED -j ACCEPT
-A OTHER -m conntrack ! --ctstate INVALID,DNAT -j RETURN
-A OTHER -s 10.244.0.0/16 ! -d 224.0.0.0/4 -j MASQUERADE --random-fully
`) {
			script.WriteString(program + " -t nat " + line)
		}
	}
	if !nstest.Enter(t, script.String()+`nft add table ip mine
nft add chain ip mine c { type filter hook forward priority 0 ; }
nft add rule ip mine c ct state established accept
nft add rule ip mine c meta mark 7 iifname eth* drop
nft add rule ip mine c icmp type echo-request drop
nft add rule ip mine c tcp dport { 22, 80-90, 443 } accept
nft add rule ip mine c ip saddr != { 10.0.0.0/8, 192.168.1.1 } drop
nft add rule ip mine c ct state { established, related } accept
nft add rule ip mine c ct state vmap { established : accept, invalid : drop }
nft add rule ip mine c ct state new,untracked counter accept
nft add rule ip mine c ct state != invalid accept
nft add rule ip mine c meta l4proto { tcp, udp } th dport vmap { 53 : accept, 100-200 : drop }
nft add rule ip mine c meta mark set tcp dport map { 22 : 1, 80 : 2 }
nft add rule ip mine c iif lo accept
nft add rule ip mine c oif != lo drop
nft add rule ip mine c iif vmap { lo : accept }
nft add rule ip mine c tcp dport 1-1024 accept
nft add rule ip mine c tcp dport != 30000-32767 drop
nft add rule ip mine c ip saddr 10.0.0.5-10.0.0.9 drop
nft add rule ip mine c tcp dport > 1024 drop
nft add rule ip mine c tcp dport >= 1024 ip saddr 10.0.0.5 drop
nft add set ip mine named { type ipv4_addr ; }
nft add rule ip mine c ip saddr @named drop
`) {
		return
	}
	other := []string{"mark 0x4000/0x4000 return", "not saddr 10.244.0.0/16 daddr 10.244.0.0/24 return",
		"not iif lo oif eth+ icmp ct state new return", "oif eth0 not tcp",
		"tcp dport 22,6443,30000-32767 accept", "tcp not dport 22 syn return", "tcp dport 30000-32767 return",
		"tcp match flags return",
		"ct state established,related accept", "not ct state invalid,dnat return",
		"saddr 10.244.0.0/16 not daddr 224.0.0.0/4 masquerade"}
	flags := strings.NewReplacer("tcp not dport 22 syn", "tcp match not dport 22", "match flags", "match")
	// nft compiles conditions on flags to a load and a comparison
	byNFT := strings.Split(flags.Replace(strings.Join(other, "; ")), "; ")
	want := map[string][]string{"nft OTHER": byNFT, "legacy OTHER": other, "nft POSTROUTING": {"jump OTHER"},
		"legacy POSTROUTING": {"jump OTHER"},
		"nft c": {"ct state established accept", "mark 0x7 iif eth+ drop", "icmp match drop",
			"tcp dport 22,80-90,443 accept", "not saddr 10.0.0.0-10.255.255.255,192.168.1.1 drop",
			"ct state established,related accept", "ct state invalid drop", "ct state established accept",
			"ct state new,untracked accept", "match ct accept",
			"proto 6,17 dport 53 accept", "proto 6,17 dport 100-200 drop", "tcp dport 22,80 map set mark", "iif lo accept",
			"not oif lo drop",
			"iifindex @? accept", "tcp dport 1-1024 accept",
			"tcp not dport 30000-32767 drop", "saddr 10.0.0.5-10.0.0.9 drop", "tcp match drop", "tcp match saddr 10.0.0.5 drop",
			"saddr @named drop"}}
	all := must.Get(Walls(&probe.Host{Proc: "/proc"}, func(string, string) bool { return true }))(t)
	for _, w := range all {
		name := "nft " + w.Name
		if w.Legacy {
			name = "legacy " + w.Name
		}
		if rules, ok := want[name]; ok && !slices.Equal(w.Rules, rules) {
			t.Errorf("%s: %q, want %q", name, w.Rules, rules)
		}
		delete(want, name)
	}
	if len(want) > 0 {
		t.Errorf("not there: %v", want)
	}
}
