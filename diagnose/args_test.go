package diagnose

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/tools/txtar"
)

// TestArgs sees that no command of a recorded night is put together from nothing: a
// peer that is no node has no name, and an MTU nobody measured is none.
func TestArgs(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("testdata/*.txtar")
	if err != nil || len(files) == 0 {
		t.Fatalf("no recorded streams: %v", err)
	}
	for _, name := range files {
		b, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		var f Findings
		for _, section := range txtar.Parse(b).Files {
			if section.Name == "stream" {
				f = read(t, section.Data)
			}
		}
		for _, rule := range Rules() {
			for _, c := range rule.Match(f) {
				fix := rule.Fix
				if c.Fix != nil {
					fix = *c.Fix
				}
				for _, command := range append(append([]string{}, fix.Manifest...), fix.Operator...) {
					for key, value := range c.Args {
						if (value == "" || value == "0") && strings.Contains(command, "{"+key+"}") {
							t.Errorf("%s, %s: nothing for %s in %s", filepath.Base(name), rule.ID, key, command)
						}
					}
				}
			}
		}
	}
}
