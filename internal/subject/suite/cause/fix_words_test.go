package cause

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// empty are words by which a fix sends its reader elsewhere, without what to do there.
var empty = regexp.MustCompile(`(?i)look at the (?:place|other node)|the place that is named|read the lines|lines before (?:it|that)|` +
	`put (?:that|it) right|\bsee why\b|\bmend (?:what|that)\b|at the other end\b|^read what|^the message says|` +
	`^look at (?:the|this|where|etcd)|^see (?:what it says|the link)`)

// TestFixesSayWhatToDo reads every text of every fix in the sources: those that only a case brings are no rule's.
func TestFixesSayWhatToDo(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("../../*/*/*.go")
	if err != nil {
		t.Fatal(err)
	}
	seen := 0
	for _, name := range files {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(file, func(n ast.Node) bool {
			for _, text := range fixTexts(n) {
				seen++
				if bad := empty.FindString(text); bad != "" {
					t.Errorf("%q does not say what to do: %s", bad, text)
				}
			}
			return true
		})
	}
	if seen < 200 {
		t.Errorf("only %d texts of fixes were found", seen)
	}
}

// fixTexts are the texts of a probe.Fix or a call of lookAt: what it says, and its conditions.
func fixTexts(n ast.Node) []string {
	var of []ast.Expr
	switch n := n.(type) {
	case *ast.KeyValueExpr:
		if key, ok := n.Key.(*ast.Ident); ok && (key.Name == "Says" || key.Name == "If") {
			of = []ast.Expr{n.Value}
		}
	case *ast.CallExpr:
		if name, ok := n.Fun.(*ast.Ident); ok && name.Name == "lookAt" {
			of = n.Args[:1]
		}
	}
	var out []string
	for _, e := range of {
		ast.Inspect(e, func(n ast.Node) bool {
			if l, ok := n.(*ast.BasicLit); ok && l.Kind == token.STRING {
				if text, err := strconv.Unquote(l.Value); err == nil {
					out = append(out, text)
				}
			}
			return true
		})
	}
	return out
}
