package cause

import (
	"testing"

	"github.com/calico-probe/calico-probe/internal/diagnose"
	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/probe/facts"
)

// TestPodCgroups wants each obstacle of a pod's cgroup to have its own cause, no surer than who says it, and
// neither where a disk is meant.
func TestPodCgroups(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		says, cause string
		many        bool
		want        probe.Confidence
	}{
		"no number is left": {"unable to ensure pod container exists: failed to create container for [kubepods burstable podX] : mkdir /sys/fs/cgroup/memory/kubepods/burstable/podX: no space left on device", "cgroups-exhausted", true, probe.High},
		"of one tenant":     {"unable to ensure pod container exists: failed to create container for [kubepods burstable podX] : mkdir /sys/fs/cgroup/memory/kubepods/burstable/podX: no space left on device", "cgroups-exhausted", false, probe.Medium},
		"systemd":           {"unable to ensure pod container exists: failed to create container for [kubepods besteffort podX] : dbus: connection closed by user", "systemd-unanswering", true, probe.High},
		"a disk":            {"Failed to create pod sandbox: rpc error: code = Unknown desc = mkdir /run/containerd/x: no space left on device", "disk-full", true, probe.High},
	} {
		s := facts.SandboxFailed(c.says)
		r := s.On(probe.Found(probe.Fail, "2 pods wait: %s", s.Message).With(facts.Starts, s.Starts).
			With(facts.Message, s.Message))
		if c.many {
			r = r.With(facts.Corroborated, true)
		}
		r.Check = facts.CheckPodsStart
		d := diagnose.Explain(diagnose.Findings{Node: "a", All: []diagnose.Finding{{Node: "a", Result: r}}}, All())
		if len(d.Causes) != 1 || d.Causes[0].ID != c.cause || d.Causes[0].Confidence != c.want {
			t.Errorf("%s: %+v", name, d.Causes)
		}
	}
}
