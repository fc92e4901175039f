package diagnose

import (
	"strings"
	"testing"

	"github.com/calico-probe/calico-probe/probe"
)

// TestBothFamilies checks that causes of two families are merged only if they have the same fix.
func TestBothFamilies(t *testing.T) {
	t.Parallel()
	seen := func(target string) Finding {
		return Finding{Node: "a", Result: probe.Result{Check: "c", Target: target, Status: probe.Fail, Saw: "bad"}}
	}
	f := Findings{Node: "a", All: []Finding{seen("IPv4"), seen("IPv6")}}
	for _, setting := range []string{"{key}", "restart"} {
		rule := &Rule{ID: "r", Fix: probe.Fix{Manifest: []string{setting}}, Match: func(f Findings) []Case {
			return []Case{
				{About: "IPv4", Family: 4, Args: map[string]Arg{"key": OwnArg("IP")}, For: Proves(f.All[:1])},
				{About: "IPv6", Family: 6, Args: map[string]Arg{"key": OwnArg("IP6")}, For: Proves(f.All[1:])},
			}
		}}
		want := map[string]int{"{key}": 2, "restart": 1}[setting]
		if d := Explain(f, Suite{Rules: []*Rule{rule}}); len(d.Causes) != want || len(d.Unexplained) != 0 {
			t.Errorf("fix %q: %d causes, want %d; unexplained %v", setting, len(d.Causes), want, d.Unexplained)
		}
	}
}

// TestConsequenceWithoutTarget checks that only a consequence's evidence counts as explained, not its whole check.
func TestConsequenceWithoutTarget(t *testing.T) {
	t.Parallel()
	seen := func(check, target string) Finding {
		return Finding{Node: "a", Result: probe.Result{Check: check, Target: target, Status: probe.Fail, Saw: "bad"}}
	}
	f := Findings{Node: "a", All: []Finding{seen("root", ""), seen("felt", ""), seen("felt", "elsewhere")}}
	rules := []*Rule{
		{ID: "cause", Explains: []string{"effect"}, Match: func(f Findings) []Case {
			return []Case{{For: Clues(Proof,
				f.All[:1])}}
		}},
		{ID: "effect", Match: func(f Findings) []Case { return []Case{{For: Proves(f.All[1:2])}} }},
	}
	d := Explain(f, Suite{Rules: rules})
	if len(d.Causes) != 1 || len(d.Unexplained) != 1 || d.Unexplained[0] != "felt" {
		t.Errorf("causes %+v, unexplained %v", d.Causes, d.Unexplained)
	}
}

// TestFailedRule checks that a panicking rule is named, and that the other rules still give their causes.
func TestFailedRule(t *testing.T) {
	t.Parallel()
	bad := Finding{Node: "a", Result: probe.Result{Check: "node-swap", Target: " ", Status: probe.Fail}}
	rules := []*Rule{
		{ID: "crashes", Layer: LayerKernel, Match: func(f Findings) []Case { panic(strings.Repeat("\x1b[31m", 1000)) }},
		{ID: "crashes-later", Layer: LayerKernel, Residual: true, Match: func(f Findings) []Case {
			return []Case{{Says: strings.Fields(f.All[0].Target)[0]}}
		}},
		{ID: "holds", Layer: LayerKernel, Match: func(f Findings) []Case { return []Case{{For: Proves(f.All)}} }},
	}
	d := Explain(Findings{Node: "a", All: []Finding{bad}}, Suite{Rules: rules})
	if len(d.Causes) != 1 || d.Causes[0].ID != "holds" {
		t.Errorf("causes: %+v", d.Causes)
	}
	if len(d.Failed) != 2 || !strings.HasPrefix(d.Failed[0], "rule crashes failed: it crashed: ?[31m") || len(d.Failed[0]) > 300 ||
		!strings.HasPrefix(d.Failed[1], "rule crashes-later failed: it crashed: runtime error: index out of range") {
		t.Errorf("failed: %q", d.Failed)
	}
}
