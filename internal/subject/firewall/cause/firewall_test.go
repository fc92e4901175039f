package cause

import (
	"slices"
	"strings"
	"testing"
)

// TestForwardFix wants the commands of that firewall alone that drops what is forwarded.
func TestForwardFix(t *testing.T) {
	t.Parallel()
	const legacy, nft, native = "FORWARD of legacy iptables", "FORWARD of iptables-nft", "forward of nftables' table own"
	for _, c := range []struct {
		drops []string
		want  string
	}{
		{[]string{legacy}, "iptables-legacy -S,iptables-legacy -P"}, {[]string{nft}, "iptables-nft -S,iptables-nft -P"},
		{[]string{native}, "nft list chains"},
		{[]string{legacy, nft}, "iptables-legacy -S,iptables-nft -S,iptables-legacy -P,iptables-nft -P"},
	} {
		fix := letForward(c.drops, 4)
		all := slices.Clone(fix.Manifest)
		for _, only := range fix.OnlyIf {
			all = append(all, only.Manifest...)
		}
		want := strings.Split(c.want, ",")
		if len(all) != len(want) {
			t.Errorf("%q: %q", c.drops, all)
			continue
		}
		for i := range want {
			if !strings.Contains(all[i], "ssh {node} sudo "+want[i]) {
				t.Errorf("%q: %q, want %q", c.drops, all[i], want[i])
			}
		}
	}
	if got := letForward([]string{legacy}, 6).Manifest[0]; !strings.Contains(got, " ip6tables-legacy ") {
		t.Errorf("IPv6: %s", got)
	}
}
