package docs_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/calico-probe/calico-probe/probe/must"
)

// quotedBar is a bar that separates no cells: in code, or escaped.
var quotedBar = regexp.MustCompile("`[^`]*`|\\\\\\|")

// TestTables requires that each row of a table has as many cells as its head, which a wrapping script breaks.
func TestTables(t *testing.T) {
	t.Parallel()
	rows := 0
	for _, pattern := range []string{"*.md", "../*.md", "../test/sandbox/*.md"} {
		for _, name := range must.Get(filepath.Glob(pattern))(t) {
			cells, fenced := 0, false
			for i, line := range strings.Split(string(must.Get(os.ReadFile(name))(t)), "\n") {
				if strings.HasPrefix(line, "```") {
					fenced = !fenced
				}
				if fenced || !strings.HasPrefix(line, "|") {
					cells = 0
					continue
				}
				got := strings.Count(quotedBar.ReplaceAllString(line, ""), "|")
				if cells == 0 {
					cells = got
				}
				if rows++; got != cells {
					t.Errorf("%s:%d: %d bars, the table's head has %d", name, i+1, got, cells)
				}
			}
		}
	}
	if rows < 100 {
		t.Errorf("only %d rows of tables", rows)
	}
}
