package cause

import (
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// empty are words by which a fix sends its reader elsewhere, without what to do there.
var empty = regexp.MustCompile(`(?i)look at the (?:place|other node)|the place that is named|read the lines|lines before (?:it|that)|` +
	`put (?:that|it) right|\bsee why\b|\bmend (?:what|that)\b|at the other end\b|^read what|^the message says|` +
	`^look at (?:the|this|where|etcd)|^see (?:what it says|the link)`)

// TestFixesSayWhatToDo reads every text of every fix: those in the files of causes, and in the sources those that only
// a case brings.
func TestFixesSayWhatToDo(t *testing.T) {
	t.Parallel()
	texts := textsInSources(t)
	for _, r := range All().Rules {
		for _, fix := range append(slices.Collect(maps.Values(r.Fixes)), r.Fix) {
			texts = append(texts, fix.Says)
			for _, c := range fix.OnlyIf {
				texts = append(texts, c.If)
			}
		}
	}
	for _, text := range texts {
		if bad := empty.FindString(text); bad != "" {
			t.Errorf("%q does not say what to do: %s", bad, text)
		}
	}
	if len(texts) < 300 {
		t.Errorf("only %d texts of fixes were found", len(texts))
	}
}

// textsInSources are the texts of the fixes that the sources have.
func textsInSources(t *testing.T) []string {
	t.Helper()
	files, err := filepath.Glob("../../*/*/*.go")
	if err != nil {
		t.Fatal(err)
	}
	var texts []string
	for _, name := range files {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(file, func(n ast.Node) bool {
			texts = append(texts, fixTexts(n)...)
			return true
		})
	}
	return texts
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
