package cause

import (
	"testing"

	"github.com/calico-probe/calico-probe/internal/diagnose"
	"github.com/calico-probe/calico-probe/internal/subject/host"
	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/probe/facts"
	"github.com/calico-probe/calico-probe/probe/logs"
)

// TestOldKill wants a process that the kernel killed before calico-node was last ready to be no reason of today.
func TestOldKill(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		ago, notReady int
		want          bool
	}{
		"before it was last ready":       {500, 12, false},
		"near: as it became not ready":   {50, 12, true},
		"near: it has not been ready on": {500, 460, true},
		"near: it is ready":              {500, -1, true},
	} {
		f := diagnose.Findings{Node: "node-b"}
		add := func(r probe.Result, check string) {
			r.Check = check
			f.Add(probe.Event{Type: probe.EventResult, Node: "node-b", Result: &r})
		}
		add(probe.Found(probe.Warn, "the kernel logged 5s ago: Killed process 7 (bird)").On("killed bird").
			With(logs.FactSignature, logs.KernelKilled).With(probe.FactKernelOf, "bird").
			With(host.FactAgo, c.ago), host.KernelLog.ID)
		if c.notReady >= 0 {
			add(probe.Found(probe.Warn, "has not been ready").With(facts.NotReady, c.notReady), facts.CheckCalicoPod)
		}
		if got := len(calicoKilled(f)) > 0; got != c.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}
