package probe

import (
	"fmt"
	"testing"
)

// TestBlocks checks for the commands of the given installation only, or for both with their conditions if it is
// unknown, and for no empty block.
func TestBlocks(t *testing.T) {
	t.Parallel()
	m, o := []string{"m"}, []string{"o"}
	for name, c := range map[string]struct {
		fix  Fix
		want string
	}{
		"nothing":        {Fix{}, "[]"},
		"either way":     {Fix{Manifest: m}, "[{ [m]}]"},
		"a manifest's":   {Fix{Manifest: m, Operator: o, Install: "manifest"}, "[{ [m]}]"},
		"the operator's": {Fix{Manifest: m, Operator: o, Install: "operator"}, "[{ [o]}]"},
		"not known": {Fix{Manifest: m, Operator: o},
			"[{Calico was installed by a manifest [m]} {the Tigera operator manages Calico [o]}]"},
		"the operator's alone":  {Fix{Operator: o}, "[{the Tigera operator manages Calico [o]}]"},
		"nothing by a manifest": {Fix{Operator: o, Install: "manifest"}, "[]"},
		"under a condition": {Fix{OnlyIf: []Conditional{{If: "x", Manifest: m, Operator: o}}},
			"[{x, and Calico was installed by a manifest [m]} {x, and the Tigera operator manages Calico [o]}]"},
	} {
		if got := fmt.Sprint(c.fix.Blocks()); got != c.want {
			t.Errorf("%s: %s, want %s", name, got, c.want)
		}
	}
}
