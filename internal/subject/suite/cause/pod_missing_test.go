package cause

import (
	"slices"
	"strings"
	"testing"

	"github.com/calico-probe/calico-probe/internal/diagnose"
	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/probe/facts"
)

// TestMissingFix wants the one label or taint that keeps calico-node off a node in the fix, and no other.
func TestMissingFix(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		skips, by string
		want      []string // among the commands
	}{
		"a label": {facts.SkipsSelector, "projectcalico.org/operator-node-migration=pre-operator", []string{
			"kubectl label node node-a --overwrite projectcalico.org/operator-node-migration=pre-operator",
			"edit daemonset calico-node  # spec.template.spec.nodeSelector"}},
		"the system's": {facts.SkipsSelector, "kubernetes.io/os=linux", []string{"kubectl label node node-a --overwrite kubernetes.io/os=linux"}},
		"a taint": {facts.SkipsTaint, "dedicated=db:NoExecute", []string{"kubectl taint node node-a dedicated=db:NoExecute-",
			`/tolerations","value":[{"operator":"Exists"}]`}},
		"a taint without a value": {facts.SkipsTaint, "dedicated:NoSchedule", []string{"kubectl taint node node-a dedicated:NoSchedule-"}},
		"an affinity":             {facts.SkipsAffinity, "", []string{".spec.template.spec.affinity.nodeAffinity"}},
		"no DaemonSet":            {facts.SkipsNoSet, "", []string{"kubectl get tigerastatus"}},
		"a label with a command":  {facts.SkipsSelector, "a; reboot=x", []string{"--overwrite KEY=VALUE"}},
	} {
		f := diagnose.Findings{Node: "node-a"}
		r := probe.Result{Check: facts.CheckCalicoPod, Status: probe.Fail, Saw: "no calico-node pod",
			Facts: probe.Facts{probe.FactReason: facts.ReasonNoPod, facts.Skips: c.skips, facts.SkippedBy: c.by}}
		f.Add(probe.Event{Type: probe.EventResult, Node: "node-a", Result: &r})
		causes := diagnose.Explain(f, All()).Causes
		if len(causes) == 0 || causes[0].ID != "calico-pod-missing" {
			t.Fatalf("%s: %+v", name, causes)
		}
		commands := commandsOf(causes[0].Fix)
		for _, want := range c.want {
			if !slices.ContainsFunc(commands, func(line string) bool { return strings.Contains(line, want) }) {
				t.Errorf("%s: no command has %q: %q", name, want, commands)
			}
		}
		for _, line := range commands {
			if c.by != "kubernetes.io/os=linux" && strings.Contains(line, "kubernetes.io/os") {
				t.Errorf("%s: another label: %s", name, line)
			}
		}
	}
}
