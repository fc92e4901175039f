package diagnose

import (
	"testing"

	"github.com/calico-probe/calico-probe/probe"
)

// TestFactsAsSaved checks that a rule sees the same types in a live and in a saved run.
func TestFactsAsSaved(t *testing.T) {
	t.Parallel()
	f := Findings{}
	f.Add(probe.Event{Type: probe.EventResult, Node: "a", Result: &probe.Result{Check: "x",
		Facts: probe.Facts{"list": []string{"one"}, "n": 3}}})
	if _, ok := f.All[0].Facts["list"].([]any); !ok {
		t.Errorf("%T", f.All[0].Facts["list"])
	}
	if len(f.With("x", "n", 3)) != 1 {
		t.Error("a number is no more found")
	}
}
