package diagnose

import (
	"os"
	"slices"
	"testing"

	"golang.org/x/tools/txtar"

	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/probe/checks"
)

// TestOpen wants the proof between the two nodes asked where pods of one other node are silent
// and nothing says why, and nothing more once a cause is proven or the proof was made.
func TestOpen(t *testing.T) {
	t.Parallel()
	night := func(name string) Findings {
		b, err := os.ReadFile("testdata/" + name + ".txtar")
		if err != nil {
			t.Fatal(err)
		}
		files := txtar.Parse(b).Files
		return read(t, files[slices.IndexFunc(files, func(f txtar.File) bool { return f.Name == "stream" })].Data)
	}
	open := func(f Findings) ([]string, string) { return Explain(f, Rules()).Open() }

	silent := night("firewall-forward-drop-from-a-peer")
	if ids, about := open(silent); !slices.Equal(ids, []string{checks.EncapProof.ID}) || about != "node-b" {
		t.Errorf("silent pods: asks %q about %q, want %s about node-b", ids, about, checks.EncapProof.ID)
	}
	unknown := probe.Result{Check: checks.EncapProof.ID, Status: probe.Unknown}
	silent.All = append(silent.All, Finding{Node: silent.Node, Result: unknown})
	if ids, _ := open(silent); len(ids) > 0 {
		t.Errorf("asks again what had no answer: %q", ids)
	}
	if ids, _ := open(night("route-swallowed")); len(ids) > 0 {
		t.Errorf("a proven cause: asks %q", ids)
	}
}
