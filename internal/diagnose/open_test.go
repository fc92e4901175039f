package diagnose

import (
	"os"
	"slices"
	"testing"

	"golang.org/x/tools/txtar"

	"github.com/calico-probe/calico-probe/internal/subject/overlay"
	"github.com/calico-probe/calico-probe/probe"
)

// TestOpen wants the proof between the two nodes asked where pods of one other node are silent
// and nothing says why, and nothing more once all is explained or the proof was made.
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
	open := func(f Findings) []Cover { return Explain(f, Rules()).Open() }

	silent := night("firewall-forward-drop-from-a-peer")
	want := Cover{Check: overlay.EncapProof.ID, About: "node-b"}
	if got := open(silent); !slices.Equal(got, []Cover{want}) {
		t.Errorf("silent pods: asks %+v, want %+v", got, want)
	}
	unknown := probe.Result{Check: overlay.EncapProof.ID, Status: probe.Unknown}
	silent.All = append(silent.All, Finding{Node: silent.Node, Result: unknown})
	if ids := open(silent); len(ids) > 0 {
		t.Errorf("asks again what had no answer: %+v", ids)
	}
	if ids := open(night("route-swallowed")); len(ids) > 0 {
		t.Errorf("a proven cause: asks %+v", ids)
	}
}
