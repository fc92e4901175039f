package cause

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// TestEveryRuleIsListed wants a place in the order for the cause of each file, and a file for each place.
func TestEveryRuleIsListed(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("../../*/cause/*.md")
	if err != nil {
		t.Fatal(err)
	}
	var found []string
	for _, name := range files {
		found = append(found, strings.TrimSuffix(filepath.Base(name), ".md"))
	}
	var listed []string
	for _, r := range All().Rules {
		listed = append(listed, r.ID)
	}
	if !slices.Equal(listed, order) {
		t.Errorf("the subjects list %d rules, the order has %d", len(listed), len(order))
	}
	slices.Sort(found)
	if slices.Sort(listed); !slices.Equal(found, listed) {
		t.Errorf("%d causes have a file, the suite has %d", len(found), len(listed))
	}
}
