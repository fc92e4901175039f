package cause

import (
	"testing"

	"github.com/calico-probe/calico-probe/probe/facts"
)

// TestCallNamed wants a broken call of the kubelet named as what it is.
func TestCallNamed(t *testing.T) {
	t.Parallel()
	all := map[string]string{facts.ProbeLiveness: "liveness probe", facts.ProbePostStart: "postStart hook"}
	for kind, want := range all {
		if got := probeKind(kind).Said(); callNamed(kind) != want || got != want {
			t.Errorf("%s: %q and %q", kind, callNamed(kind), got)
		}
	}
}
