package cause

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// TestEveryFileIsACause wants the causes of every subject in the suite.
func TestEveryFileIsACause(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("../../*/cause/*.md")
	if err != nil {
		t.Fatal(err)
	}
	listed := ids()
	for _, name := range files {
		if id := strings.TrimSuffix(filepath.Base(name), ".md"); !slices.Contains(listed, id) {
			t.Errorf("no rule of the suite is for %s", name)
		}
	}
	if len(listed) != len(files) {
		t.Errorf("%d rules, %d files", len(listed), len(files))
	}
}

// ids are those of all causes.
func ids() []string {
	var out []string
	for _, r := range All().Rules {
		out = append(out, r.ID)
	}
	return out
}
