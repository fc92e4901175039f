//go:build e2e

package kernel

import (
	"fmt"
	"net/netip"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/probe/icmp"
	"github.com/calico-probe/calico-probe/probe/must"
	"github.com/calico-probe/calico-probe/probe/nstest"
)

// refusing are rules in each firewall, in the forms of Felix (v3.32) and of others.
const refusing = `
nft -f - <<'END'
table ip calico {
	chain filter-cali-pi-default.deny {
		counter meta mark set 1 comment "cali:abcdefghijklmnop; NetworkPolicy default/deny ingress"
		ip daddr 127.0.0.2 counter drop comment "cali:bbcdefghijklmnop;"
	}
	chain in {
		type filter hook input priority 0;
		jump filter-cali-pi-default.deny
		ip daddr 127.0.0.9 drop
	}
}
END
iptables-nft -A INPUT -d 127.0.0.3 -m comment --comment cali:cbcdefghijklmnop -m comment --comment "Unknown interface" -j DROP
iptables-nft -P FORWARD DROP
iptables-legacy -N cali-tw-x
iptables-legacy -A cali-tw-x -m comment --comment "GlobalNetworkPolicy all egress"
iptables-legacy -A cali-tw-x -d 127.0.0.4 -m comment --comment "End of tier default. Drop if no policies passed packet" -j DROP
iptables-legacy -A INPUT -j cali-tw-x
iptables-legacy -A INPUT -d 127.0.0.5 -p icmp -j REJECT
ip6tables-legacy -P INPUT DROP
`

// TestRealRefusals drops pings in each firewall, and checks for the rules with their packet counts.
func TestRealRefusals(t *testing.T) {
	if !nstest.Enter(t, "ip link set lo up") {
		return
	}
	if out, err := exec.CommandContext(t.Context(), "sh", "-ec", refusing).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	for at, packets := range map[string]int{"127.0.0.2": 2, "127.0.0.3": 3, "127.0.0.4": 4, "127.0.0.5": 5} {
		pace := icmp.Pace{Packets: packets, Every: time.Millisecond}
		got, err := icmp.Ping(t.Context(), []netip.Addr{netip.MustParseAddr(at)}, pace)
		if err != nil || got[0].Received > 0 {
			t.Fatalf("%v, %+v", err, got)
		}
	}
	got := must.Get(Refusals(&probe.Host{Root: "/", Proc: "/proc"}))(t)
	var lines []string
	for _, r := range got {
		lines = append(lines, fmt.Sprintf("%s %s %s %s %d: %s %q %q %v %d", r.Wall, r.Family, r.Table, r.Chain, r.At, r.Text,
			strings.Join(r.Comments, "|"), r.For, r.Counted, r.Packets))
	}
	want := []string{
		`iptables-nft ip filter FORWARD 0: policy drop "" "" true 0`,
		`nftables ip calico filter-cali-pi-default.deny 2: daddr 127.0.0.2 drop "" "NetworkPolicy default/deny ingress" true 2`,
		`nftables ip calico in 2: daddr 127.0.0.9 drop "" "" false 0`,
		`iptables-nft ip filter INPUT 1: daddr 127.0.0.3 drop "Unknown interface" "" true 3`,
		`legacy iptables ip filter INPUT 2: daddr 127.0.0.5 icmp reject "" "" true 5`,
		`legacy iptables ip filter cali-tw-x 2: daddr 127.0.0.4 drop "End of tier default. Drop if no policies passed packet" ` +
			`"GlobalNetworkPolicy all egress" true 4`,
		`legacy iptables ip6 filter INPUT 0: policy drop "" "" true 0`,
	}
	for _, line := range want {
		if !slices.Contains(lines, line) {
			t.Errorf("no %s", line)
		}
	}
	if len(lines) != len(want) {
		t.Errorf("got\n%s", strings.Join(lines, "\n"))
	}
}
