package causefile

import (
	"testing"

	"github.com/calico-probe/calico-probe/internal/diagnose"
	"github.com/calico-probe/calico-probe/probe"
)

// file is a cause whose match is the rest of its front matter.
func file(match string) string {
	return "---\nlayer: peers\n" + match + "\n---\n# a title\n\nA doc.\n\n## Fix\n\nDo it.\n\nTouches: nothing\n"
}

// match compiles a match and runs it over results of node-a.
func match(t *testing.T, text string, shared Shared, results ...probe.Result) []diagnose.Case {
	t.Helper()
	rule, err := readCause("a-cause", file(text), shared, nil)
	if err != nil {
		t.Fatal(err)
	}
	f := diagnose.Findings{Node: "node-a"}
	for _, r := range results {
		f.All = append(f.All, diagnose.Finding{Node: "node-a", Result: r})
	}
	return rule.Match(f)
}

// result is a bad result of a check with one fact.
func result(fact probe.Fact, value any) probe.Result {
	r := probe.Found(probe.Fail, "saw it").On("it").With(fact, value)
	r.Check = "bgp-session"
	return r
}

func TestEmptyLists(t *testing.T) {
	t.Parallel()
	const text = "find:\n  lacks: bgp-session fail missing??\ncases:\n- {if: lacks, says: some, for: proof lacks}"
	for _, nothing := range []any{[]any{}, []string{}, "", nil} {
		if got := match(t, text, Shared{}, result("missing", nothing)); len(got) != 0 {
			t.Errorf("%#v is not empty", nothing)
		}
	}
	for _, something := range []any{[]any{"a"}, "a", 0.0, false} {
		if got := match(t, text, Shared{}, result("missing", something)); len(got) != 1 {
			t.Errorf("%#v is empty", something)
		}
	}
}

func TestNodeInQuestion(t *testing.T) {
	t.Parallel()
	const text = "find: {other: \"bgp-session bad node!={node} node??\"}\ncases: [{if: other, says: some, for: proof other}]"
	for node, want := range map[string]int{"node-a": 0, "node-b": 1, "": 0} {
		if got := match(t, text, Shared{}, result("node", node)); len(got) != want {
			t.Errorf("%s: %+v", node, got)
		}
	}
}

func TestFirstOfKeys(t *testing.T) {
	t.Parallel()
	const text = "find: {down: bgp-session bad}\ncases: [{if: down, says: \"{down.node|peer|saw}\", for: proof down}]"
	for want, r := range map[string]probe.Result{
		"node-b":   result("node", "node-b").With("peer", "10.0.0.2"),
		"10.0.0.2": result("node", "").With("peer", "10.0.0.2"),
		"saw it":   result("node", ""),
	} {
		if got := match(t, text, Shared{}, r); len(got) != 1 || got[0].Says != want {
			t.Errorf("%s: %+v", want, got)
		}
	}
}
