package cause

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// TestEveryRuleIsListed finds each rule in the sources, and wants its subject to list it and the suite to have a place
// for it.
func TestEveryRuleIsListed(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("../../*/cause/*.go")
	if err != nil {
		t.Fatal(err)
	}
	declared := regexp.MustCompile(`(?m)^var \w+ = &diagnose\.Rule\{\s+ID:\s+"([a-z0-9-]+)"`)
	var found []string
	for _, name := range files {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		ids := declared.FindAllStringSubmatch(string(text), -1)
		for _, m := range ids {
			found = append(found, m[1])
		}
		if rules := strings.Count(string(text), "= &diagnose.Rule{"); rules != len(ids) {
			t.Errorf("%s: %d rules, %d of which begin with their ID", name, rules, len(ids))
		}
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
		t.Errorf("%d rules are in the sources, the suite has %d", len(found), len(listed))
	}
}
