package cause

import (
	"os"
	"slices"
	"testing"

	"golang.org/x/tools/txtar"

	"github.com/calico-probe/calico-probe/internal/diagnose"
	"github.com/calico-probe/calico-probe/internal/nightfile"
	"github.com/calico-probe/calico-probe/internal/subject/firewall"
	"github.com/calico-probe/calico-probe/internal/subject/overlay"
	"github.com/calico-probe/calico-probe/probe"
)

// TestOpen wants the proof between the two nodes asked where pods of one other node are silent
// and nothing says why, and nothing more once all is explained or the proof was made.
func TestOpen(t *testing.T) {
	t.Parallel()
	night := func(name string) diagnose.Findings {
		b, err := os.ReadFile(nightfile.Path(name))
		if err != nil {
			t.Fatal(err)
		}
		files := txtar.Parse(b).Files
		return read(t, files[slices.IndexFunc(files, func(f txtar.File) bool { return f.Name == "stream" })].Data)
	}
	open := func(f diagnose.Findings) []diagnose.Cover { return diagnose.Explain(f, All()).Open() }

	silent := night("firewall-forward-drop-from-a-peer")
	want := diagnose.Cover{Check: overlay.EncapProof.ID, About: "node-b"}
	if got := open(silent); !slices.Equal(got, []diagnose.Cover{want}) {
		t.Errorf("silent pods: asks %+v, want %+v", got, want)
	}
	unknown := probe.Result{Check: overlay.EncapProof.ID, Status: probe.Unknown}
	silent.All = append(silent.All, diagnose.Finding{Node: silent.Node, Result: unknown})
	if ids := open(silent); len(ids) > 0 {
		t.Errorf("asks again what had no answer: %+v", ids)
	}
	if ids := open(night("route-swallowed")); len(ids) > 0 {
		t.Errorf("a proven cause: asks %+v", ids)
	}
}

// TestUntraced wants it looked for where packets die, that a filter drops, though the cause is proven; once.
func TestUntraced(t *testing.T) {
	t.Parallel()
	b, err := os.ReadFile(nightfile.Path("bgp-port-dropped-here"))
	if err != nil {
		t.Fatal(err)
	}
	f := read(t, txtar.Parse(b).Files[1].Data)
	if diagnose.Explain(f, All()).Untraced() {
		t.Error("it was looked for already")
	}
	f.All = slices.DeleteFunc(f.All, func(r diagnose.Finding) bool { return r.Check == firewall.PacketDrops.ID })
	f = f.Indexed()
	if d := diagnose.Explain(f, All()); d.Causes[0].ID != "bgp-filtered" || !d.Settled() || !d.Untraced() {
		t.Errorf("%+v: settled %v, untraced %v", d.Causes[0], d.Settled(), d.Untraced())
	}
}
