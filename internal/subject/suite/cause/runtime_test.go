package cause

import (
	"maps"
	"os"
	"slices"
	"testing"

	"golang.org/x/tools/txtar"

	"github.com/calico-probe/calico-probe/internal/diagnose"
	"github.com/calico-probe/calico-probe/internal/nightfile"
	"github.com/calico-probe/calico-probe/internal/subject/runtime"
	"github.com/calico-probe/calico-probe/probe"
)

// TestShimUnseen wants little claimed of a list of containers that is late, where no shim is seen that does not run.
func TestShimUnseen(t *testing.T) {
	t.Parallel()
	b, err := os.ReadFile(nightfile.Path("pods-end-shim"))
	if err != nil {
		t.Fatal(err)
	}
	f := read(t, txtar.Parse(b).Files[1].Data)
	for i := range f.All {
		f.All[i].Facts = maps.Clone(f.All[i].Facts)
		delete(f.All[i].Facts, runtime.FactShims)
	}
	f.All = slices.DeleteFunc(f.All, func(r diagnose.Finding) bool { return r.Check == runtime.RuntimeGhosts.ID })
	for _, c := range diagnose.Explain(f.Indexed(), All()).Causes {
		if c.ID == "shim-hangs" && c.Confidence != probe.Low {
			t.Errorf("%s: %s", c.Confidence, c.Says)
		}
	}
}
