package causefile

import (
	"slices"
	"testing"

	"github.com/calico-probe/calico-probe/internal/diagnose"
	"github.com/calico-probe/calico-probe/probe"
)

// TestOnce expects one case for each value of a key, about the first finding with it.
func TestOnce(t *testing.T) {
	t.Parallel()
	const text = "find:\n  peer: bgp-session bad node?? once:node\n  theirs: bgp-session bad node={peer.node}\n" +
		"cases: [{each: peer, says: \"{peer.node} {theirs.count}\", for: proof theirs}]"
	var got []string
	for _, c := range match(t, text, Shared{}, result("node", "b"), result("node", ""), result("node", "c"),
		result("node", "b")) {
		got = append(got, c.Says)
	}
	if want := []string{"b 2", "c 1"}; !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}

// TestOthersShared checks that a shared selection sees each other node as the one in question.
func TestOthersShared(t *testing.T) {
	t.Parallel()
	shared := Shared{Selections: map[string]SelectionFunc{
		"lines": func(f diagnose.Findings, of ...string) []diagnose.Finding { return f.With("log", "of", of[0]) },
	}}
	const text = "find:\n  all: [\"@lines dns\", \"others:@lines dns first:9\"]\n  lines: all on={all.on}\n" +
		"cases: [{if: lines, says: \"{all.*on} {lines.*on}\", for: proof lines}]"
	rule, err := readCause("a-cause", file(text), shared, nil)
	if err != nil {
		t.Fatal(err)
	}
	f := diagnose.Findings{Node: "a"}
	for _, node := range []string{"b", "c", "b"} {
		r := probe.Result{Check: "log", Facts: probe.Facts{"of": "dns"}}
		f.All = append(f.All, diagnose.Finding{Node: node, Result: r})
	}
	if got := rule.Match(f); len(got) != 1 || got[0].Says != "b, c b" {
		t.Errorf("%+v", got)
	}
}

// TestFirstWord checks that targets compare by their first word, and that ports are found in a list.
func TestFirstWord(t *testing.T) {
	t.Parallel()
	const text = "find: {down: \"bgp-session bad firstword=it ports~179\"}\ncases: [{if: down, says: some, for: proof down}]"
	for want, r := range map[int]probe.Result{
		1: result("ports", []any{22.0, 179.0}).On("it 10.0.0.2"),
		0: result("ports", []any{179.0}).On("item 10.0.0.2"),
	} {
		if got := match(t, text, Shared{}, r); len(got) != want {
			t.Errorf("%s: %+v", r.Target, got)
		}
	}
}
