package netpolicy

import (
	"testing"
)

// TestStrictest checks that a policy that denies a direction is named before one that allows some packets.
func TestStrictest(t *testing.T) {
	t.Parallel()
	everybody := func(map[string]string) bool { return true }
	opens := Policy{name: "NetworkPolicy shop/allow", namespace: "shop", selects: everybody,
		ruling: ruling{rules: map[string][]rule{"ingress": {{action: "Allow", all: false}}}}}
	closes := Policy{name: "NetworkPolicy shop/deny", namespace: "shop", selects: everybody,
		ruling: ruling{rules: map[string][]rule{"ingress": {}}}}
	for name, c := range map[string]struct {
		all  []Policy
		want string
	}{
		"both":     {[]Policy{opens, closes}, closes.name},
		"one":      {[]Policy{opens}, opens.name},
		"no other": {nil, ""},
	} {
		if got := (Policies{List: c.all}).strictest("shop", nil); got != c.want {
			t.Errorf("%s: %q", name, got)
		}
	}
}
