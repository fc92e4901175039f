package checks

import (
	"net/netip"
	"testing"
)

// TestMasksPods wants the rules seen that surely hide pods' addresses from pods, and no others.
func TestMasksPods(t *testing.T) {
	t.Parallel()
	pools := []netip.Prefix{netip.MustParsePrefix("10.244.0.0/16"), netip.MustParsePrefix("fd00:244::/64")}
	for rule, want := range map[string]bool{
		"saddr 10.244.0.0/16 oif eth0 masquerade":                 true,
		"saddr 10.0.0.0/8 masquerade":                             true,
		"oif eth0 masquerade":                                     true,
		"saddr fd00:244::/64 not oif lo masquerade":               true,
		"saddr 10.244.0.0/16 snat":                                true,
		"saddr 10.244.0.0/16 not daddr 192.168.0.0/16 masquerade": true,
		"saddr 10.244.0.0/16 not daddr 10.244.0.0/16 masquerade":  false,
		"saddr 10.244.0.0/16 not daddr 10.0.0.0/8 masquerade":     false,
		"saddr 10.244.7.0/24 masquerade":                          false, // of some pods, perhaps of none
		"saddr 172.17.0.0/16 not oif docker0 masquerade":          false,
		"saddr 10.244.0.0/16 not oif eth0 masquerade":             false,
		"oif tailscale0 masquerade":                               false,
		"saddr 10.244.0.0/16 match set masquerade":                false,
		"mark 0x4000 masquerade":                                  false,
		"saddr 10.250.0.0/16 not daddr 224.0.0.0/4 masquerade":    false,
		"saddr 10.244.0.0/16 return":                              false,
		"not":                                                     false,
		"saddr":                                                   false,
		"":                                                        false,
	} {
		if got := masksPods(rule, pools, "eth0"); got != want {
			t.Errorf("%q: %v", rule, got)
		}
	}
	const mask = "saddr 10.244.0.0/16 masquerade"
	for before, want := range map[string]string{"saddr 172.17.0.0/16 masquerade": mask,
		"saddr 10.244.0.0/16 daddr 10.244.0.0/16 return": "", "mark 0x1 accept": "",
		"jump cali-POSTROUTING": mask, "jump FLANNEL-POSTRTG": "", "oif eth0 goto NO-MASQ": ""} { // as flannel had it
		if got := firstMask([]string{before, mask}, pools, "eth0"); got != want {
			t.Errorf("after %q: %q", before, got)
		}
	}
}
