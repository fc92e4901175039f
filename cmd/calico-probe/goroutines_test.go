package main_test

import (
	"go/ast"
	"go/token"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// startsPlainly are folders whose goroutines may crash the program: they serve the user's own terminal, or are parts of
// tests.
var startsPlainly = []string{"internal/prompt", "internal/ui", "test"}

// TestCrashesAreNamed requires the result of probe.Async to be read: otherwise a crash would vanish. probe.Detach is
// for callers that do not wait.
func TestCrashesAreNamed(t *testing.T) {
	for _, s := range sources(t, filepath.Join("..", "..")) {
		if strings.HasSuffix(s.path, "_test.go") {
			continue
		}
		ended := map[string]bool{}
		ast.Inspect(s.file, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.AssignStmt:
				if len(n.Rhs) == 1 && isAsync(n.Rhs[0]) {
					if name, is := n.Lhs[0].(*ast.Ident); is && name.Name != "_" {
						ended[name.Name] = true
					} else {
						t.Errorf("%s: the result of Async is dropped", s.set.Position(n.Pos()))
					}
				}
			case *ast.ExprStmt:
				dropped := isAsync(n.X)
				if from, is := n.X.(*ast.UnaryExpr); is && from.Op == token.ARROW {
					name, is := from.X.(*ast.Ident)
					dropped = is && ended[name.Name] || isAsync(from.X)
				}
				if dropped {
					t.Errorf("%s: the result of Async is dropped", s.set.Position(n.Pos()))
				}
			}
			return true
		})
	}
}

// isAsync reports whether an expression is a call of probe.Async.
func isAsync(e ast.Expr) bool {
	call, is := e.(*ast.CallExpr)
	if !is {
		return false
	}
	switch f := call.Fun.(type) {
	case *ast.Ident:
		return f.Name == "Async"
	case *ast.SelectorExpr:
		return f.Sel.Name == "Async"
	}
	return false
}

// TestGoroutines requires every goroutine to start through probe.Workers, probe.Async or probe.Detach, which recover
// panics.
func TestGoroutines(t *testing.T) {
	for _, s := range sources(t, filepath.Join("..", "..")) {
		plainly := slices.ContainsFunc(startsPlainly, func(dir string) bool { return strings.HasPrefix(s.path, dir+"/") })
		if strings.HasSuffix(s.path, "_test.go") || plainly || s.path == "probe/recovered.go" ||
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
