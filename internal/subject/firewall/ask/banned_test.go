package ask

import (
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/calico-probe/calico-probe/probe/kernel"
)

// TestBanned expects a rule only if it drops every packet of single addresses in a pool.
func TestBanned(t *testing.T) {
	t.Parallel()
	pools := []netip.Prefix{netip.MustParsePrefix("10.244.0.0/16")}
	for name, c := range map[string]struct{ hooked, other, want string }{
		"a ban":              {"saddr 10.244.1.2 drop", "", "10.244.1.2"},
		"counted":            {"daddr 10.244.1.2,10.244.1.9 counter reject", "", "10.244.1.2 10.244.1.9"},
		"a range":            {"saddr 10.244.1.2-10.244.1.5 drop", "", "10.244.1.2-10.244.1.5"},
		"in a chain":         {"jump OTHER", "saddr 10.244.1.2 drop", "10.244.1.2"},
		"twice":              {"jump OTHER; jump OTHER", "saddr 10.244.1.2 drop; jump OTHER", "10.244.1.2"},
		"in a chain of ssh":  {"tcp dport 22 jump OTHER", "saddr 10.244.1.2 drop", ""},
		"in an unused chain": {"", "saddr 10.244.1.2 drop", ""},
		"by one interface":   {"iif eth1 saddr 10.244.1.2 drop; iif eth1 jump OTHER", "saddr 10.244.1.2 drop", ""},
		"for one port":       {"saddr 10.244.1.2 tcp dport 22 drop", "", ""},
		"all but one":        {"not saddr 10.244.1.2 drop", "", ""},
		"from one to one":    {"saddr 10.244.1.2 daddr 10.244.1.3 drop", "", ""},
		"let through":        {"saddr 10.244.1.2 accept", "", ""},
		"a stranger":         {"saddr 203.0.113.9 drop", "", ""},
		"the whole pool":     {"saddr 10.244.0.0-10.244.255.255 drop", "", ""},
		"a wider network":    {"saddr 10.0.0.0-10.255.255.255 drop", "", ""},
		"everything":         {"drop", "", ""},
		"no verdict":         {"saddr 10.244.1.2 log", "", ""},
	} {
		rules := func(s string) []string {
			return slices.DeleteFunc(strings.Split(s, "; "), func(s string) bool { return s == "" })
		}
		all := []kernel.Wall{{Family: "ip", Table: "t", Name: "c", Hook: "forward", Rules: rules(c.hooked)},
			{Family: "ip", Table: "t", Name: "OTHER", Rules: rules(c.other)}}
		_, _, banned, err := firstBan(all, pools)
		if text := strings.Join(banned, " "); text != c.want || err != nil {
			t.Errorf("%s: %q, want %q (%v)", name, text, c.want, err)
		}
	}
}
