package cause

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/calico-probe/calico-probe/internal/causefile"
	"github.com/calico-probe/calico-probe/internal/subject/suite"
	"github.com/calico-probe/calico-probe/internal/subject/suite/api"
	suiteapi "github.com/calico-probe/calico-probe/internal/subject/suite/api"
	"github.com/calico-probe/calico-probe/probe"
)

// TestLint holds every cause to the linter that an operator's causes are held to: checks and causes that exist, values
// for the names in a fix, commands that parse. The facts that data compares are those of the sources.
func TestLint(t *testing.T) {
	t.Parallel()
	known := causefile.Known{Checks: []string{probe.CheckPlaced, probe.CheckAnswered}, Causes: ids()}
	for _, c := range slices.Concat(api.Checks(nil), suite.Node()) {
		known.Checks = append(known.Checks, c.ID)
	}
	facts := factsOf(t, "../../../..")
	data := 0
	for _, rule := range All().Rules {
		for _, err := range causefile.Lint(rule, known) {
			t.Errorf("%s: %v", rule.ID, err)
		}
		for _, fact := range rule.Uses.Facts {
			if !slices.Contains(facts, fact) {
				t.Errorf("%s: no check has the fact %q", rule.ID, fact)
			}
		}
		if rule.Trace != nil {
			data++
		}
	}
	t.Logf("%d of %d causes are data", data, len(known.Causes))
}

// TestCheckWords wants words for each check, and a check for each file of words.
func TestCheckWords(t *testing.T) {
	t.Parallel()
	has := map[string]bool{probe.CheckPlaced: true, probe.CheckAnswered: true}
	for _, c := range append(suiteapi.Checks(nil), suite.Node()...) {
		has[c.ID] = true
	}
	for id := range has {
		if w := Words(id); w.Asks == "" || w.Doc == "" {
			t.Errorf("%s lacks a question or a doc", id)
		}
	}
	for id := range words() {
		if !has[id] {
			t.Errorf("checks/%s.md has the words of no check", id)
		}
	}
}

// factsOf returns the value of every constant of type probe.Fact.
func factsOf(t *testing.T, root string) []string {
	t.Helper()
	var out []string
	err := filepath.WalkDir(root, func(path string, entry os.DirEntry, err error) error {
		if err != nil || entry.IsDir() && strings.HasPrefix(entry.Name(), ".") && path != root {
			return filepath.SkipDir
		}
		if entry.IsDir() || filepath.Ext(path) != ".go" {
			return nil
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		for _, d := range file.Decls {
			if consts, is := d.(*ast.GenDecl); is && consts.Tok == token.CONST {
				out = append(out, factsIn(consts)...)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func factsIn(consts *ast.GenDecl) []string {
	var out []string
	for _, spec := range consts.Specs {
		one := spec.(*ast.ValueSpec)
		name, _ := one.Type.(*ast.Ident)
		if selector, is := one.Type.(*ast.SelectorExpr); is {
			name = selector.Sel
		}
		if name == nil || name.Name != "Fact" {
			continue
		}
		for _, value := range one.Values {
			if text, is := value.(*ast.BasicLit); is {
				if unquoted, err := strconv.Unquote(text.Value); err == nil {
					out = append(out, unquoted)
				}
			}
		}
	}
	return out
}
