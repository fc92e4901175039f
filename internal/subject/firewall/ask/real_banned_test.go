//go:build e2e

package ask

import (
	"testing"

	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/probe/checktest"
	"github.com/calico-probe/calico-probe/probe/nstest"
)

// TestRealBanned bans pods in sets of nftables, with and without ranges, and beside addresses of strangers.
func TestRealBanned(t *testing.T) {
	if !nstest.Enter(t, checktest.Furniture+`nft add table ip bouncer
nft add set ip bouncer bans { type ipv4_addr ; flags timeout ; }
nft add set ip bouncer ranges { type ipv4_addr ; flags interval ; }
nft add chain ip bouncer c { type filter hook forward priority -10 ; }
nft add rule ip bouncer c ip saddr @bans counter drop
nft add rule ip bouncer c ip saddr @ranges counter drop
nft add element ip bouncer bans { 203.0.113.9 timeout 1h , 198.51.100.7 timeout 1h }
nft add element ip bouncer ranges { 10.0.0.0/8 , 203.0.113.0/24 }
`) {
		return
	}
	ask := func() []probe.Result {
		return checktest.Run(t, nodeFirewallCheck, &probe.Host{Root: "/", Proc: "/proc"}, checktest.FelixWith(),
			checktest.Pool("10.244.0.0/16", "Never", "Never"))
	}
	for _, r := range ask() {
		if r.Target == targetBanned {
			t.Errorf("strangers: %+v", r)
		}
	}
	checktest.Do(t, "nft add element ip bouncer bans { 10.244.1.2 timeout 1h }")
	checktest.Want(t, ask(), targetBanned, probe.Warn,
		"drops packets of 10.244.1.2, in Calico's pools: nftables ip bouncer c: saddr @bans drop")
	checktest.Do(t, "nft delete element ip bouncer bans { 10.244.1.2 }", "nft delete element ip bouncer ranges { 10.0.0.0/8 }",
		"nft add element ip bouncer ranges { 10.244.3.4-10.244.3.6 , 10.244.9.9 }")
	checktest.Want(t, ask(), targetBanned, probe.Warn, "of 10.244.3.4-10.244.3.6, 10.244.9.9, in Calico's pools")
}
