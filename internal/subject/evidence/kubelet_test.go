package evidence

import (
	"testing"

	"github.com/calico-probe/calico-probe/internal/diagnose"
	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/probe/logs"
)

// TestEndWeight expects proof only from a known line that the service itself wrote, and only if the service is down.
func TestEndWeight(t *testing.T) {
	t.Parallel()
	known := probe.Facts{logs.FactSignature: logs.FaultSwapOn}
	for name, c := range map[string]struct {
		facts probe.Facts
		down  bool
		want  int
	}{
		"recognised":        {known, true, diagnose.Proof},
		"not recognised":    {probe.Facts{}, true, diagnose.Strong},
		"from a syslog":     {probe.Facts{logs.FactSignature: logs.FaultSwapOn, logs.FactByTag: true}, true, diagnose.Strong},
		"the service is up": {known, false, diagnose.Hint},
	} {
		line := diagnose.Finding{Result: probe.Result{Facts: c.facts}}
		if got := EndWeight(line, c.down); got != c.want {
			t.Errorf("%s: %d, want %d", name, got, c.want)
		}
	}
}
