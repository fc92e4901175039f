//go:build e2e

package e2e

import (
	"os"
	"slices"
	"testing"

	"github.com/calico-probe/calico-probe/probe"
)

// Calico itself in place of the sandbox's stand-in, for TestReal*: a folder with its image
// archives, and the manifest that starts it. 'make real' sets both.
var calico, manifest = os.Getenv("CALICO"), os.Getenv("MANIFEST")

// onCalico skips a test if the cluster runs the stand-in for Calico.
func onCalico(t *testing.T) {
	t.Helper()
	if calico == "" {
		t.Skip("needs Calico itself: make real CALICO=DIR")
	}
}

// TestRealHealthy requires no bad result for a healthy node with real Calico.
func TestRealHealthy(t *testing.T) {
	onCalico(t)
	for _, profile := range []string{"standard", "deep"} {
		for _, node := range []string{"node-a", "node-b"} {
			t.Run(profile+" "+node, func(t *testing.T) {
				d, a := report(t, "run", "--node", node, "--profile", profile, "--skip", "node-load")
				if d.Verdict != "healthy" || d.Exit != 0 || len(d.Causes) != 0 {
					t.Errorf("%s, exit %d, causes %v, want healthy, 0 and none\n%s", d.Verdict, d.Exit, d.Causes, a.stderr)
					t.Logf("not ok: %v", slices.DeleteFunc(slices.Clone(d.Results), func(r located) bool {
						return slices.Contains([]probe.Status{probe.OK, probe.Info, probe.Skip}, r.Status)
					}))
				}
				d.want(t, "felix-ready", "ok")
			})
		}
	}
}
