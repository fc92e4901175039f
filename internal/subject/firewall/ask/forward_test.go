package ask

import (
	"net/netip"
	"strings"
	"testing"

	"github.com/calico-probe/calico-probe/probe/kernel"
)

// TestForwardAccepts expects a chain to accept pods only if its rules certainly do.
func TestForwardAccepts(t *testing.T) {
	t.Parallel()
	flow := flow{from: netip.MustParseAddr("10.244.1.2"), to: netip.MustParseAddr("10.244.2.3"), out: "eth0"}
	chain := func(name string, rules ...string) kernel.Wall {
		return kernel.Wall{Family: "ip", Table: "filter", Name: name, Rules: rules}
	}
	for name, c := range map[string]struct {
		rules, user string
		want        bool
	}{
		"a chain of one's own": {"jump DOCKER-USER", "saddr 10.244.0.0/16 accept", true},
		"at once":              {"accept", "", true},
		"docker's":             {"jump DOCKER-USER;oif docker0 ct state established,related accept", "return", false},
		"another net":          {"jump DOCKER-USER", "saddr 10.9.0.0/16 accept", false},
		"dropped before":       {"jump DOCKER-USER;accept", "daddr 10.244.2.0/24 drop", false},
		"perhaps dropped":      {"jump DOCKER-USER;accept", "ct state new reject", false},
		"perhaps accepted":     {"jump DOCKER-USER", "mark 0x10000/0x10000 accept", false},
		"perhaps led there":    {"ct state new jump DOCKER-USER", "saddr 10.244.0.0/16 accept", false},
		"perhaps back":         {"jump DOCKER-USER;accept", "ct state new return", false},
		"not seen":             {"jump ELSEWHERE;accept", "", false},
		"none":                 {"", "", false},
	} {
		split := func(s string) []string {
			return strings.FieldsFunc(s, func(r rune) bool { return r == ';' })
		}
		all := []kernel.Wall{chain("FORWARD", split(c.rules)...), chain("DOCKER-USER", split(c.user)...)}
		if got, _ := flow.passes(all, all[0], 0); got != c.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}
