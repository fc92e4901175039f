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
	for _, id := range listed {
		if !slices.Contains(order, id) {
			t.Errorf("%s has a file and no place in the order of suite.go", id)
		}
	}
	for _, id := range order {
		if !slices.Contains(found, id) {
			t.Errorf("suite.go has %s in its order, and no subject has a file %s.md", id, id)
		}
	}
	if !slices.Equal(listed, order) {
		t.Errorf("All has %d rules in another order than the %d of suite.go", len(listed), len(order))
	}
}
