package cause

import (
	"testing"

	"github.com/calico-probe/calico-probe/internal/diagnose"
	"github.com/calico-probe/calico-probe/probe"
)

// TestLayers makes of each pair of rules two that are equally sure, where what speaks for the
// second follows from the first. The first is then the cause, unless it lies in a later layer;
// a symptom is never sure, and never stands before its reason; what is bad only later stands last.
func TestLayers(t *testing.T) {
	t.Parallel()
	seen := func(check string) diagnose.Finding {
		return diagnose.Finding{Node: "a", Result: probe.Result{Check: check, Status: probe.Fail, Saw: "bad"}}
	}
	f := diagnose.Findings{Node: "a", All: []diagnose.Finding{seen("first"), seen("second")}}
	as := func(r *diagnose.Rule, evidence diagnose.Finding, covers ...diagnose.Cover) *diagnose.Rule {
		found := diagnose.Case{For: diagnose.Proves([]diagnose.Finding{evidence}), Covers: covers}
		match := func(diagnose.Findings) []diagnose.Case { return []diagnose.Case{found} }
		return &diagnose.Rule{ID: r.ID, Layer: r.Layer, Symptom: r.Symptom, Later: r.Later, Match: match}
	}
	for _, first := range All().Rules {
		for _, second := range All().Rules {
			if first == second {
				continue
			}
			d := diagnose.Explain(f,
				diagnose.Suite{Rules: []*diagnose.Rule{as(second, f.All[1]), as(first, f.All[0], diagnose.Cover{Check: "second"})}})
			later := first.Layer > second.Layer
			want := 1
			switch {
			case first.Later && !second.Later, first.Symptom && !second.Symptom,
				later && (!second.Symptom || first.Symptom):
				want = 2 // a symptom is less sure than what is none, so it explains only other symptoms
			}
			if len(d.Causes) != want {
				t.Errorf("%s, and %s that follows from it: %d causes, want %d", first.ID, second.ID, len(d.Causes), want)
			}
			placement := first.Layer == diagnose.LayerPlacement ||
				second.Layer == diagnose.LayerPlacement // which always comes last
			laterID := map[bool]string{true: first.ID, false: second.ID}[first.Later]
			if len(d.Causes) == 2 && !placement && first.Later != second.Later && d.Causes[0].ID == laterID {
				t.Errorf("%s, which is bad later, stands first", d.Causes[0].ID)
			}
			for i, c := range d.Causes {
				symptom := c.ID == first.ID && first.Symptom || c.ID == second.ID && second.Symptom
				if symptom && c.Confidence == probe.High {
					t.Errorf("symptom %s is told with high confidence", c.ID)
				}
				if symptom && i == 0 && len(d.Causes) == 2 && first.Symptom != second.Symptom &&
					first.Later == second.Later && !placement {
					t.Errorf("symptom %s stands before %s", c.ID, d.Causes[1].ID)
				}
			}
		}
	}
}
