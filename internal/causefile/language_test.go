package causefile

import (
	"strings"
	"testing"

	"github.com/calico-probe/calico-probe/internal/diagnose"
	"github.com/calico-probe/calico-probe/probe"
)

// file returns a cause with this match in its front matter.
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

func TestJoined(t *testing.T) {
	t.Parallel()
	const text = "find: {down: bgp-session bad}\ncases:\n- if: down\n  for: proof down\n" +
		"  says: \"{down.list}, {down.list:joined ;}, {down.*name:joined and}\""
	got := match(t, text, Shared{}, result("list", []any{"a", "b"}).With("name", "x"),
		result("list", nil).With("name", "y"))
	if want := "a, b, a; b, x and y"; len(got) != 1 || got[0].Says != want {
		t.Errorf("%+v, want %s", got, want)
	}
}

func TestArgsWithWords(t *testing.T) {
	t.Parallel()
	const text = "find: {down: bgp-session bad}\ncases:\n- if: down\n  says: some\n  for: proof down\n" +
		"  args: {a: \"word:WORD {down.of}\", b: \"name:NAME {down.of}\", c: \"unsure:SIZE {down.of}\"}"
	for of, want := range map[string]string{
		"vxlan": "vxlan vxlan SIZE", "ip_set": "ip_set NAME SIZE", "$(x)": "WORD NAME SIZE",
	} {
		got := match(t, text, Shared{}, result("of", of))
		if len(got) != 1 {
			t.Fatalf("%s: %+v", of, got)
		}
		args := got[0].Args
		if typed := args["a"].Typed() + " " + args["b"].Typed() + " " + args["c"].Typed(); typed != want {
			t.Errorf("%s: %s, want %s", of, typed, want)
		}
	}
	wrong := file(strings.Replace(text, "word:WORD", "file:FILE", 1))
	if _, err := readCause("a-cause", wrong, Shared{}, nil); err == nil {
		t.Error("a type takes a word that it does not use")
	}
}
