package cause

import (
	"cmp"
	"testing"

	"github.com/calico-probe/calico-probe/internal/diagnose"
	"github.com/calico-probe/calico-probe/internal/subject/evidence"
	"github.com/calico-probe/calico-probe/internal/subject/runtime"
	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/probe/logs"
)

// endsWithFix wants one case of kubelet-ends, with a fix of its own or, for "", with that of the cause.
func endsWithFix(t *testing.T, want string, signature string, others ...probe.Result) {
	t.Helper()
	rule := diagnose.Suite{Rules: Rules()}.Rule("kubelet-ends")
	f := diagnose.Findings{Node: "a"}
	for _, r := range append(others, probe.Result{
		Check: logs.DaemonLog.ID, Status: probe.Fail, Target: logs.ServiceKubelet,
		Facts: probe.Facts{logs.FactEnded: true, logs.FactSignature: signature}}) {
		f.All = append(f.All, diagnose.Finding{Node: "a", Result: r})
	}
	cases := rule.Match(f.Indexed())
	if len(cases) != 1 {
		t.Fatalf("%s: %v", signature, cases)
	}
	if said := rule.FixOf(cases[0]).Says; said != cmp.Or(want, rule.Fix.Says) {
		t.Errorf("%s: the fix is %q, want %q", signature, said, want)
	}
}

// TestManagerState wants the fix that names the kept state where the kubelet ends for it, and the general
// one where it ends for anything else.
func TestManagerState(t *testing.T) {
	t.Parallel()
	endsWithFix(t, evidence.Shared().Fixes["manager-state"].Says, logs.FaultState)
	endsWithFix(t, "", logs.FaultSwapOn)
}

// TestOtherSocket wants the kubelet's socket named as wrong only where a runtime answers at another.
func TestOtherSocket(t *testing.T) {
	t.Parallel()
	answer := probe.Result{Check: runtime.CRIHealth.ID, Status: probe.OK, Target: "version"}
	wrong := diagnose.Suite{Rules: Rules()}.Rule("kubelet-ends").Fixes["other-socket"].Says
	endsWithFix(t, wrong, logs.FaultNoRuntime, answer)
	answer.Status = probe.Skip
	endsWithFix(t, "", logs.FaultNoRuntime, answer)
}
