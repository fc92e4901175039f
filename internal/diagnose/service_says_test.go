package diagnose

import (
	"testing"

	"github.com/calico-probe/calico-probe/internal/subject/runtime"
	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/probe/logs"
)

// TestEndWeight wants proof only from a line that is recognised, that the service wrote itself, and whose
// service is seen to be down.
func TestEndWeight(t *testing.T) {
	t.Parallel()
	known := probe.Facts{logs.FactSignature: logs.SaysSwapOn}
	for name, c := range map[string]struct {
		facts probe.Facts
		down  bool
		want  int
	}{
		"recognised":        {known, true, proof},
		"not recognised":    {probe.Facts{}, true, strong},
		"from a syslog":     {probe.Facts{logs.FactSignature: logs.SaysSwapOn, logs.FactByTag: true}, true, strong},
		"the service is up": {known, false, hint},
	} {
		line := Finding{Result: probe.Result{Facts: c.facts}}
		if got := endWeight(line, c.down); got != c.want {
			t.Errorf("%s: %d, want %d", name, got, c.want)
		}
	}
}

// TestManagerState wants the fix that names the kept state where the kubelet ends for it, and the general
// one where it ends for anything else.
func TestManagerState(t *testing.T) {
	t.Parallel()
	for signature, want := range map[string]*probe.Fix{logs.SaysState: &managerState, logs.SaysSwapOn: nil} {
		f := Findings{Node: "a", All: []Finding{{Node: "a", Result: probe.Result{
			Check: logs.DaemonLog.ID, Status: probe.Fail, Target: logs.ServiceKubelet,
			Facts: probe.Facts{logs.FactEnded: true, logs.FactSignature: signature}}}}}.indexed()
		cases := kubeletEnds.Match(f)
		if len(cases) != 1 || cases[0].Fix != want {
			t.Errorf("%s: %v", signature, cases)
		}
	}
}

// TestOtherSocket wants the kubelet's socket named as wrong only where a runtime answers at another.
func TestOtherSocket(t *testing.T) {
	t.Parallel()
	for status, want := range map[probe.Status]*probe.Fix{probe.OK: &otherSocket, probe.Skip: nil} {
		f := Findings{Node: "a", All: []Finding{
			{Node: "a", Result: probe.Result{Check: logs.DaemonLog.ID, Status: probe.Fail, Target: logs.ServiceKubelet,
				Facts: probe.Facts{logs.FactEnded: true, logs.FactSignature: logs.SaysNoRuntime}}},
			{Node: "a", Result: probe.Result{Check: runtime.CRIHealth.ID, Status: status, Target: "version"}},
		}}.indexed()
		if cases := kubeletEnds.Match(f); len(cases) != 1 || cases[0].Fix != want {
			t.Errorf("%s: %v", status, cases)
		}
	}
}
