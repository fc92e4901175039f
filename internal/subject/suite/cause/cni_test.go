package cause

import (
	"testing"

	"github.com/calico-probe/calico-probe/internal/diagnose"
	"github.com/calico-probe/calico-probe/internal/subject/cni"
	"github.com/calico-probe/calico-probe/internal/subject/runtime"
	"github.com/calico-probe/calico-probe/probe"
)

// TestCNIUnread wants a configuration that containerd does not read to be its cause, sure where containerd itself
// has no network.
func TestCNIUnread(t *testing.T) {
	t.Parallel()
	unread := of(cni.CNIConfig.ID, "", probe.Found(probe.Fail, "not read").With(probe.FactReason, cni.CNIUnread))
	without := of(runtime.CRIHealth.ID, "", probe.Found(probe.Fail, "NetworkReady is false").
		With(runtime.FactNotReady, []string{"NetworkReady"}))
	for sure, f := range map[probe.Confidence]diagnose.Findings{probe.Medium: found(unread),
		probe.High: found(unread, without)} {
		d := diagnose.Explain(f, All())
		if len(d.Causes) != 1 || d.Causes[0].ID != "cni-config-unread" || d.Causes[0].Confidence != sure {
			t.Errorf("%s: %+v", sure, d.Causes)
		}
	}
}
