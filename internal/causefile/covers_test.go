package causefile

import (
	"slices"
	"testing"

	"github.com/calico-probe/calico-probe/internal/diagnose"
	"github.com/calico-probe/calico-probe/probe"
)

// TestCoversEach checks that only the selection's findings are covered, and nothing else of their checks.
func TestCoversEach(t *testing.T) {
	t.Parallel()
	const text = "---\nlayer: peers\nfind:\n  rule: route-rules fail\n" +
		"  lost: every-check bad family={rule.family} check=pod-ping|pod-tcp\n" +
		"cases:\n- {each: rule, says: some, for: proof rule, covers: [each lost reason!=refused]}\n" +
		"---\n# a title\n\nA doc.\n\n## Fix\n\nDo it.\n\nTouches: nothing\n"
	rule, err := readCause("a-cause", text, Shared{}, nil)
	if err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(rule.Uses.Checks, []string{"route-rules"}) {
		t.Errorf("uses checks %v", rule.Uses.Checks)
	}
	f := diagnose.Findings{Node: "node-a"}
	add := func(check, target string, family int, reason string) {
		r := probe.Found(probe.Fail, "saw it").On(target).With(probe.FactFamily, family).With(probe.FactReason, reason)
		r.Check = check
		f.All = append(f.All, diagnose.Finding{Node: "node-a", Result: r})
	}
	add("route-rules", "IPv4", 4, "")
	add("pod-ping", "four", 4, "")
	add("pod-ping", "six", 6, "")
	add("pod-tcp", "refused", 4, "refused")
	add("pod-mtu", "another check", 4, "")
	cases := rule.Match(f)
	if len(cases) != 1 || !slices.Equal(cases[0].Covers, []diagnose.Cover{{Check: "pod-ping", About: "four"}}) {
		t.Errorf("%+v", cases)
	}
}

// TestFurther checks that cases after one that holds are tried only with "further".
func TestFurther(t *testing.T) {
	t.Parallel()
	for further, want := range map[string]int{"": 1, "further: true, ": 2} {
		text := "find: {failed: bgp-session fail}\ncases:\n- {" + further + "each: failed, says: one, for: proof failed}\n" +
			"- {if: failed, says: two, for: proof failed}\n- {if: failed, says: three, for: proof failed}"
		if got := match(t, text, Shared{}, result("family", 4)); len(got) != want {
			t.Errorf("%q: %+v", further, got)
		}
	}
}

// TestEntries checks that a list is compared with a number by its length.
func TestEntries(t *testing.T) {
	t.Parallel()
	const text = "find: {several: \"bgp-session fail in_use>1\"}\ncases: [{if: several, says: some, for: proof several}]"
	for want, list := range map[int]any{0: []any{"one"}, 1: []any{"one", "two"}} {
		if got := match(t, text, Shared{}, result("in_use", list)); len(got) != want {
			t.Errorf("%v: %+v", list, got)
		}
	}
}
