package cause

import (
	"strings"
	"testing"

	"github.com/calico-probe/calico-probe/internal/diagnose"
)

// TestRewrittenRadius wants the restart of a node without Calico's rules not to promise that pods keep their policy.
func TestRewrittenRadius(t *testing.T) {
	t.Parallel()
	radius := diagnose.Suite{Rules: Rules()}.Rule("firewall-rewritten").Fix.Radius
	if strings.Contains(radius, "routes and policy") {
		t.Error(radius)
	}
}
