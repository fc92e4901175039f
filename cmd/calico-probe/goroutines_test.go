package main_test

import (
	"go/ast"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// startsPlainly are folders whose goroutines may end the program: they serve the user's own terminal, or are a part of
// tests.
var startsPlainly = []string{"prompt", "ui", "sandbox", "e2e"}

// TestGoroutines wants every goroutine to be started where its panic is recovered: by probe.Workers or probe.Async.
func TestGoroutines(t *testing.T) {
	for _, s := range sources(t, filepath.Join("..", "..")) {
		top, _, _ := strings.Cut(s.path, "/")
		if strings.HasSuffix(s.path, "_test.go") || slices.Contains(startsPlainly, top) || s.path == "probe/recovered.go" ||
			strings.HasSuffix(s.folder(), "test") {
			continue
		}
		ast.Inspect(s.file, func(n ast.Node) bool {
			plain := ""
			switch n := n.(type) {
			case *ast.GoStmt:
				plain = "a go statement"
			case *ast.SelectorExpr:
				if x, is := n.X.(*ast.Ident); is && x.Name == "sync" && n.Sel.Name == "WaitGroup" {
					plain = "a sync.WaitGroup"
				}
			}
			if plain != "" {
				t.Errorf("%s: %s: a panic there ends the program: use probe.Workers or probe.Async", s.set.Position(n.Pos()), plain)
			}
			return true
		})
	}
}
