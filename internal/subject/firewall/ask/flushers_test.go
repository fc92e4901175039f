package ask

import (
	"slices"
	"testing"

	"github.com/calico-probe/calico-probe/probe/checktest"
)

// TestFirewallFlushers lists commands that remove foreign rules, and ignores Felix, kube-proxy and commands that read.
func TestFirewallFlushers(t *testing.T) {
	t.Parallel()
	files := map[string]string{}
	checktest.Process(files, 1, 1, "systemd", 0, "", "/sbin/init")
	for i, args := range [][]string{
		{"sh", "-c", "while sleep 5; do nft flush ruleset; done"}, {"iptables", "-t", "nat", "-F"},
		{"iptables-restore", "/etc/iptables/rules.v4"}, {"iptables-nft-restore", "--noflush", "--verbose"},
		{"iptables-restore", "-w", "5", "--noflush", "--counters"}, {"nft", "list", "ruleset"}, {"iptables", "-S", "FORWARD"},
		{"nft", "monitor"}, {"grep", "nftables"},
	} {
		checktest.Process(files, 40+i, 1, args[0], 0, "", args...)
	}
	got := firewallFlushers(checktest.Node(t, files))
	if want := []string{"process 40: sh -c while sleep 5; do nft flush ruleset; done", "process 41: iptables -t nat -F",
		"process 42: iptables-restore /etc/iptables/rules.v4"}; !slices.Equal(got, want) {
		t.Errorf("%q", got)
	}
}
