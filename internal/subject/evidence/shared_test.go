package evidence

import (
	"slices"
	"testing"

	"github.com/calico-probe/calico-probe/internal/diagnose"
)

// TestSharedArguments calls each shared function with its minimum number of arguments: a file may pass no more.
func TestSharedArguments(t *testing.T) {
	t.Parallel()
	shared, f := Shared(), diagnose.Findings{Node: "node-a"}
	for name, of := range shared.Selections {
		if found := of(f, slices.Repeat([]string{"x"}, shared.Least[name])...); len(found) > 0 {
			t.Errorf("@%s finds %v in nothing", name, found)
		}
	}
	for name := range shared.Least {
		if shared.Selections[name] == nil {
			t.Errorf("@%s needs arguments and is no selection", name)
		}
	}
	for _, of := range shared.Covers {
		of(f)
	}
	for _, args := range shared.Args {
		args.Of(f)
	}
}
