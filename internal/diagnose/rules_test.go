package diagnose

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"slices"
	"testing"
)

// TestEveryRuleIsListed finds each variable that is a rule in the source, and wants its name in the list.
func TestEveryRuleIsListed(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	var rules, listed []string
	for _, name := range files {
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		for _, decl := range file.Decls {
			ruleNames(decl, &rules, &listed)
		}
	}
	if len(listed) != len(All().Rules) {
		t.Fatalf("%d names in the list of %d rules", len(listed), len(All().Rules))
	}
	for _, name := range rules {
		if !slices.Contains(listed, name) {
			t.Errorf("%s is a rule that rules.go does not list", name)
		}
	}
}

// ruleNames adds the variables that a declaration makes rules, and the names that it lists.
func ruleNames(decl ast.Decl, rules, listed *[]string) {
	made, is := decl.(*ast.GenDecl)
	if !is || made.Tok != token.VAR {
		return
	}
	for _, spec := range made.Specs {
		value := spec.(*ast.ValueSpec)
		for i, of := range value.Values {
			if address, is := of.(*ast.UnaryExpr); is {
				of = address.X
			}
			literal, is := of.(*ast.CompositeLit)
			if !is {
				continue
			}
			if kind, is := literal.Type.(*ast.Ident); is && kind.Name == "Rule" {
				*rules = append(*rules, value.Names[i].Name)
			}
			if value.Names[i].Name == "ordered" {
				for _, one := range literal.Elts {
					*listed = append(*listed, one.(*ast.Ident).Name)
				}
			}
		}
	}
}
