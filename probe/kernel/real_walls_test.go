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
`) {
		return
	}
	other := []string{"mark 0x4000/0x4000 return", "not saddr 10.244.0.0/16 daddr 10.244.0.0/24 return",
		"not iif lo oif eth+ icmp match conntrack return", "oif eth0 not tcp",
		"saddr 10.244.0.0/16 not daddr 224.0.0.0/4 masquerade"}
	want := map[string][]string{"nft OTHER": other, "legacy OTHER": other, "nft POSTROUTING": {"jump OTHER"},
		"legacy POSTROUTING": {"jump OTHER"},
		"nft c":              {"match ct accept", "mark 0x7 iif eth+ drop", "icmp match drop"}}
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
