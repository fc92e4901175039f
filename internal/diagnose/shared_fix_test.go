package diagnose

import (
	"slices"
	"strings"
	"testing"

	"github.com/calico-probe/calico-probe/probe/facts"
)

// TestKubeletDeadFixes wants the branches of a dead kubelet to be the fixes of swap-on and kubelet-certificate.
func TestKubeletDeadFixes(t *testing.T) {
	t.Parallel()
	var all []string
	for _, c := range whyKubeletDead.OnlyIf {
		all = append(all, c.Manifest...)
	}
	of := kubeletCertificate.Fix
	want := slices.Concat(swapOn.Fix.Manifest, of.Manifest[:1], of.OnlyIf[0].Manifest)
	for _, command := range want {
		if !slices.Contains(all, command) {
			t.Errorf("kubelet-dead lacks %q", command)
		}
	}
}

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

// TestRewrittenRadius wants the restart of a node without Calico's rules not to promise that pods keep their policy.
func TestRewrittenRadius(t *testing.T) {
	t.Parallel()
	if strings.Contains(firewallRewritten.Fix.Radius, "routes and policy") {
		t.Error(firewallRewritten.Fix.Radius)
	}
}
