package cause

import (
	"slices"
	"testing"

	"github.com/calico-probe/calico-probe/internal/diagnose"
)

// TestKubeletDeadFixes wants the branches of a dead kubelet to be the fixes of swap-on and kubelet-certificate.
func TestKubeletDeadFixes(t *testing.T) {
	t.Parallel()
	suite := diagnose.Suite{Rules: Rules()}
	var all []string
	for _, c := range suite.Rule("kubelet-dead").Fixes["from-outside"].OnlyIf {
		all = append(all, c.Manifest...)
	}
	of := suite.Rule("kubelet-certificate").Fix
	want := slices.Concat(suite.Rule("swap-on").Fix.Manifest, of.Manifest[:1], of.OnlyIf[0].Manifest,
		of.OnlyIf[1].Manifest)
	for _, command := range want {
		if !slices.Contains(all, command) {
			t.Errorf("kubelet-dead lacks %q", command)
		}
	}
}
