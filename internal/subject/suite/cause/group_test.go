package cause

import (
	"strings"
	"testing"

	"github.com/calico-probe/calico-probe/internal/diagnose"
	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/probe/facts"
)

// TestCommandsNameTheGroup wants commands to name the group of this cluster, and none that unlocks
// the old one while a migration is at work.
func TestCommandsNameTheGroup(t *testing.T) {
	for name, c := range map[string]struct {
		facts      probe.Facts
		has, lacks string
	}{
		"of CRDs": {probe.Facts{facts.Group: "crd.projectcalico.org"}, "patch clusterinformations.crd.projectcalico.org",
			"clusterinformations.projectcalico.org"},
		"native": {probe.Facts{facts.Group: "projectcalico.org"}, "patch clusterinformations.projectcalico.org",
			"crd.projectcalico.org"},
		"on its way": {probe.Facts{facts.Group: "crd.projectcalico.org", facts.Migration: "m Converged"},
			"datastoremigrations", "patch"},
	} {
		c.facts[facts.DatastoreReady] = false
		f := diagnose.Findings{Node: "a", All: []diagnose.Finding{{Node: "a", Result: probe.Result{
			Check: facts.CheckDatastoreReady, Status: probe.Fail, Facts: c.facts}}}}
		d := diagnose.Explain(f, All())
		if len(d.Causes) != 1 {
			t.Fatalf("%s: %v", name, d.Causes)
		}
		text := strings.Join(commandsOf(d.Causes[0].Fix), "\n")
		if !strings.Contains(text, c.has) || strings.Contains(text, c.lacks) {
			t.Errorf("%s: %s", name, text)
		}
	}
}
