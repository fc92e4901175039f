// Package docs_test checks the project's own documents.
package docs_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// forbidden are words that CONTRIBUTING.md ("Words") replaces, unless they have another meaning.
var forbidden = regexp.MustCompile(`(?i)\b(seats?|knock(s|ed|ing)?|climb(s|ed|ing)?|rungs?|ladders?|glances?|` +
	`farewells?|whoever|likewise|atlas|(is|are) had|ways? onto|doors?|taken up|carried probe|carries (a|no|the) probe|` +
	`lines? to (the|a|its) (probe|API server|kubelet|container))\b`)

// TestWords requires that documents, help, messages and comments have no forbidden words.
func TestWords(t *testing.T) {
	found := map[string][]string{}
	err := filepath.WalkDir("..", func(name string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name = filepath.ToSlash(strings.TrimPrefix(filepath.ToSlash(name), "../"))
		if entry.IsDir() {
			if slices.Contains([]string{".git", ".cache", "bin", "dist", "testdata", "carried"}, entry.Name()) {
				return filepath.SkipDir
			}
			return nil
		}
		kinds := []string{".go", ".md", ".yaml", ".sh", ".tmpl"}
		if !slices.Contains(kinds, filepath.Ext(name)) || name == "docs/words_test.go" {
			return nil
		}
		b, err := os.ReadFile(filepath.Join("..", name))
		if err != nil {
			return err
		}
		for i, line := range strings.Split(string(b), "\n") {
			if row := name == "CONTRIBUTING.md" && strings.HasPrefix(line, "|"); row { // the dictionary itself
				continue
			}
			if word := forbidden.FindString(line); word != "" {
				folder := filepath.ToSlash(filepath.Dir(name))
				found[folder] = append(found[folder], name+":"+strconv.Itoa(i+1)+": "+word)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, lines := range found {
		t.Errorf("CONTRIBUTING.md, \"Words\", has another word:\n%s", strings.Join(lines, "\n"))
	}
}
