package diagnose

import (
	"testing"

	"github.com/calico-probe/calico-probe/probe"
)

// TestBothFamilies wants one cause of two families only where one fix is for both.
func TestBothFamilies(t *testing.T) {
	t.Parallel()
	seen := func(target string) Finding {
		return Finding{Node: "a", Result: probe.Result{Check: "c", Target: target, Status: probe.Fail, Saw: "bad"}}
	}
	f := Findings{Node: "a", All: []Finding{seen("IPv4"), seen("IPv6")}}
	for _, setting := range []string{"{key}", "restart"} {
		rule := &Rule{ID: "r", Fix: probe.Fix{Manifest: []string{setting}}, Match: func(f Findings) []Case {
			return []Case{
				{About: "IPv4", Family: 4, Args: map[string]Arg{"key": own("IP")}, For: clues(proof, f.All[:1])},
				{About: "IPv6", Family: 6, Args: map[string]Arg{"key": own("IP6")}, For: clues(proof, f.All[1:])},
			}
		}}
		want := map[string]int{"{key}": 2, "restart": 1}[setting]
		if d := Explain(f, []*Rule{rule}); len(d.Causes) != want || len(d.Unexplained) != 0 {
			t.Errorf("fix %q: %d causes, want %d; unexplained %v", setting, len(d.Causes), want, d.Unexplained)
		}
	}
}

// TestConsequenceWithoutTarget wants no more of a check explained than what is
// evidence of the consequence.
func TestConsequenceWithoutTarget(t *testing.T) {
	t.Parallel()
	seen := func(check, target string) Finding {
		return Finding{Node: "a", Result: probe.Result{Check: check, Target: target, Status: probe.Fail, Saw: "bad"}}
	}
	f := Findings{Node: "a", All: []Finding{seen("root", ""), seen("felt", ""), seen("felt", "elsewhere")}}
	rules := []*Rule{
		{ID: "cause", Explains: []string{"effect"}, Match: func(f Findings) []Case {
			return []Case{{For: clues(proof,
				f.All[:1])}}
		}},
		{ID: "effect", Match: func(f Findings) []Case { return []Case{{For: clues(proof, f.All[1:2])}} }},
	}
	d := Explain(f, rules)
	if len(d.Causes) != 1 || len(d.Unexplained) != 1 || d.Unexplained[0] != "felt" {
		t.Errorf("causes %+v, unexplained %v", d.Causes, d.Unexplained)
	}
}
