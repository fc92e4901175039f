package cause

import (
	"testing"

	"github.com/calico-probe/calico-probe/internal/diagnose"
	"github.com/calico-probe/calico-probe/internal/subject/runtime"
	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/probe/logs"
)

// TestManagerState wants the fix that names the kept state where the kubelet ends for it, and the general
// one where it ends for anything else.
func TestManagerState(t *testing.T) {
	t.Parallel()
	for signature, want := range map[string]*probe.Fix{logs.SaysState: &managerState, logs.SaysSwapOn: nil} {
		f := diagnose.Findings{Node: "a", All: []diagnose.Finding{{Node: "a", Result: probe.Result{
			Check: logs.DaemonLog.ID, Status: probe.Fail, Target: logs.ServiceKubelet,
			Facts: probe.Facts{logs.FactEnded: true, logs.FactSignature: signature}}}}}.Indexed()
		cases := kubeletEnds(f)
		if len(cases) != 1 || cases[0].Fix != want {
			t.Errorf("%s: %v", signature, cases)
		}
	}
}

// TestOtherSocket wants the kubelet's socket named as wrong only where a runtime answers at another.
func TestOtherSocket(t *testing.T) {
	t.Parallel()
	for status, want := range map[probe.Status]*probe.Fix{probe.OK: &otherSocket, probe.Skip: nil} {
		f := diagnose.Findings{Node: "a", All: []diagnose.Finding{
			{Node: "a", Result: probe.Result{Check: logs.DaemonLog.ID, Status: probe.Fail, Target: logs.ServiceKubelet,
				Facts: probe.Facts{logs.FactEnded: true, logs.FactSignature: logs.SaysNoRuntime}}},
			{Node: "a", Result: probe.Result{Check: runtime.CRIHealth.ID, Status: status, Target: "version"}},
		}}.Indexed()
		if cases := kubeletEnds(f); len(cases) != 1 || cases[0].Fix != want {
			t.Errorf("%s: %v", status, cases)
		}
	}
}
