package ask

import (
	"testing"

	podfacts "github.com/calico-probe/calico-probe/internal/subject/pod"
	"github.com/calico-probe/calico-probe/probe"
)

// TestJudgeOwnNode expects a warning about an unreachable node only if Felix alone is configured to block it.
func TestJudgeOwnNode(t *testing.T) {
	t.Parallel()
	lost := probe.Found(probe.Fail, "no answer").With(probe.FactReason, "timeout")
	felix := func(action string) probe.Target {
		out := probe.Target{Kind: probe.KindFelix, Name: "felix"}
		if action != "" {
			out.Attrs = map[string]string{settingToHost: action}
		}
		return out
	}
	pod := probe.Target{Kind: probe.KindLocal, Name: "default/a"}
	held := pod
	held.Attrs = map[string]string{probe.AttrPolicy: "default/deny"}
	other := held
	other.Name = "default/b"
	for name, c := range map[string]struct {
		targets []probe.Target
		r       probe.Result
		status  probe.Status
		action  string
	}{
		"set to drop":         {[]probe.Target{felix("DROP"), pod, other}, lost, probe.Warn, "drop"},
		"set to reject":       {[]probe.Target{felix("Reject"), pod}, lost, probe.Warn, "reject"},
		"set to nothing":      {[]probe.Target{felix(""), pod}, lost, probe.Warn, "drop"},
		"near: set to accept": {[]probe.Target{felix("ACCEPT"), pod}, lost, probe.Info, ""},
		"near: a policy":      {[]probe.Target{felix("DROP"), held}, lost, probe.Info, ""},
		"near: no Felix":      {[]probe.Target{pod}, lost, probe.Info, ""},
		"near: no route": {[]probe.Target{felix("DROP"), pod}, lost.With(probe.FactReason, "net-unreachable"),
			probe.Info, ""},
		"near: the node accepts it": {[]probe.Target{felix("DROP"), pod}, probe.Found(probe.OK, "connected"), probe.OK, ""},
	} {
		got := judgeOwnNode(&probe.Pass{Targets: c.targets, From: "default/a"}, c.r)
		if got.Status != c.status || got.Facts.Str(podfacts.FactToHost) != c.action {
			t.Errorf("%s: %+v", name, got)
		}
	}
}
