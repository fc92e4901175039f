package cause

import (
	"testing"

	"github.com/calico-probe/calico-probe/internal/diagnose"
)

// TestSaying names one witness or more in a sentence.
func TestSaying(t *testing.T) {
	t.Parallel()
	b, c := diagnose.Finding{Node: "node-b"}, diagnose.Finding{Node: "node-c"}
	for want, fs := range map[string][]diagnose.Finding{
		" (as node-b says)":           {b, b},
		" (as node-b and node-c say)": {b, c, b},
	} {
		if got := saying(fs); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}
