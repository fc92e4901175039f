package cause

import (
	"strings"
	"testing"
)

// TestRewrittenRadius wants the restart of a node without Calico's rules not to promise that pods keep their policy.
func TestRewrittenRadius(t *testing.T) {
	t.Parallel()
	if strings.Contains(firewallRewritten.Fix.Radius, "routes and policy") {
		t.Error(firewallRewritten.Fix.Radius)
	}
}
