package cause

import (
	"testing"

	"github.com/calico-probe/calico-probe/internal/diagnose"
)

// TestSaying checks the clause for one witness and for two.
func TestSaying(t *testing.T) {
	t.Parallel()
	b, c := diagnose.Finding{Node: "node-b"}, diagnose.Finding{Node: "node-c"}
	for want, fs := range map[string][]diagnose.Finding{
		" (as seen from node-b)":            {b, b},
		" (as seen from node-b and node-c)": {b, c, b},
	} {
		if got := saying(fs); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}
