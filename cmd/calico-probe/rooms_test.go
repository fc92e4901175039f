package main_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/calico-probe/calico-probe/probe/must"
)

// The maximum sizes. Larger code does more than one thing.
const (
	longestFunction = 60  // lines
	longestFile     = 400 // lines
	// columns (a tab is one); a line with long text, or an example in a doc comment, may be wider
	widestLine = 120
	ownText    = 30 // letters that make a literal such a text
)

// source is one Go file of the repository.
type source struct {
	path  string // from the root, with slashes
	text  string
	lines []string
	file  *ast.File
	set   *token.FileSet
}

// folder returns its package, as its path from the root.
func (s source) folder() string { return filepath.ToSlash(filepath.Dir(s.path)) }

// TestRooms limits functions, files and lines, requires a comment for every package, and allows an exported name only
// if another package uses it.
func TestRooms(t *testing.T) {
	all := sources(t, filepath.Join("..", ".."))
	for _, s := range all {
		tooLarge(t, s)
	}
	withoutDoc(t, all)
	unusedElsewhere(t, all)
}

// sources returns all Go files below a folder, except those in caches of other modules.
func sources(t *testing.T, root string) []source {
	t.Helper()
	var out []source
	must.Do(t, filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		switch name := d.Name(); {
		case err != nil:
			return err
		case d.IsDir() && path != root && (strings.HasPrefix(name, ".") || name == "testdata" || name == "bin"):
			return fs.SkipDir
		case d.IsDir() || !strings.HasSuffix(name, ".go"):
			return nil
		}
		b, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(root, path)
		if err != nil {
			return err
		}
		s := source{path: filepath.ToSlash(rel), text: string(b), set: token.NewFileSet()}
		s.lines = strings.Split(s.text, "\n")
		if s.file, err = parser.ParseFile(s.set, path, b, parser.ParseComments); err != nil {
			return err
		}
		out = append(out, s)
		return nil
	}))
	return out
}

// tooLarge returns the violations of limits in a file. Tests are lists of cases, so only the width of their lines
// counts.
func tooLarge(t *testing.T, s source) {
	t.Helper()
	if !strings.HasSuffix(s.path, "_test.go") {
		for _, d := range s.file.Decls {
			f, is := d.(*ast.FuncDecl)
			if !is {
				continue
			}
			if long := s.lineOf(f.End()) - s.lineOf(f.Pos()) + 1; long > longestFunction {
				t.Errorf("%s:%d: function %s has %d lines, at most %d", s.path, s.lineOf(f.Pos()), f.Name.Name, long, longestFunction)
			}
		}
		if long := len(s.lines) - 1; long > longestFile {
			t.Errorf("%s has %d lines, at most %d", s.path, long, longestFile)
		}
	}
	texts := s.texts()
	for i, line := range s.lines {
		if width := utf8.RuneCountInString(line); width > widestLine && !texts[i+1] && !strings.HasPrefix(line, "//\t") {
			t.Errorf("%s:%d has %d columns, at most %d", s.path, i+1, width, widestLine)
		}
	}
}

func (s source) lineOf(at token.Pos) int { return s.set.Position(at).Line }

// texts returns the lines with a string literal.
func (s source) texts() map[int]bool {
	out := map[int]bool{}
	ast.Inspect(s.file, func(n ast.Node) bool {
		if lit, is := n.(*ast.BasicLit); is && lit.Kind == token.STRING && len(lit.Value) > ownText {
			for line := s.lineOf(lit.Pos()); line <= s.lineOf(lit.End()); line++ {
				out[line] = true
			}
		}
		return true
	})
	return out
}

// withoutDoc returns the packages without a package comment.
func withoutDoc(t *testing.T, all []source) {
	t.Helper()
	said := map[string]bool{}
	for _, s := range all {
		if !strings.HasSuffix(s.path, "_test.go") {
			said[s.folder()] = said[s.folder()] || s.file.Doc != nil
		}
	}
	for folder, has := range said {
		if !has {
			t.Errorf("%s has no package comment: say above a package clause what the package is for", folder)
		}
	}
}

// unusedElsewhere returns the exported functions, types and values that no other package uses.
func unusedElsewhere(t *testing.T, all []source) {
	t.Helper()
	used := map[string]bool{} // folder.Name
	for _, s := range all {
		folders := map[string]string{}
		for _, spec := range s.file.Imports {
			folder, ours := strings.CutPrefix(strings.Trim(spec.Path.Value, `"`), "github.com/calico-probe/calico-probe/")
			if !ours {
				continue
			}
			name := path.Base(folder)
			if spec.Name != nil {
				name = spec.Name.Name
			}
			folders[name] = folder
		}
		ast.Inspect(s.file, func(n ast.Node) bool {
			if sel, is := n.(*ast.SelectorExpr); is {
				if x, is := sel.X.(*ast.Ident); is {
					used[folders[x.Name]+"."+sel.Sel.Name] = true
				}
			}
			return true
		})
	}
	for _, s := range all {
		if strings.HasSuffix(s.path, "_test.go") || s.file.Name.Name == "main" {
			continue
		}
		for _, name := range exported(s.file) {
			if !used[s.folder()+"."+name] && !inExported(all, s.folder(), name) {
				t.Errorf("%s exports %s, which no other package uses", s.path, name)
			}
		}
	}
}

// exported returns the names that a file exports, without methods and fields.
func exported(f *ast.File) []string {
	var out []string
	add := func(name *ast.Ident) {
		if name.IsExported() {
			out = append(out, name.Name)
		}
	}
	for _, d := range f.Decls {
		switch d := d.(type) {
		case *ast.FuncDecl:
			if d.Recv == nil {
				add(d.Name)
			}
		case *ast.GenDecl:
			for _, spec := range d.Specs {
				switch spec := spec.(type) {
				case *ast.TypeSpec:
					add(spec.Name)
				case *ast.ValueSpec:
					for _, name := range spec.Names {
						add(name)
					}
				}
			}
		}
	}
	return out
}

// inExported reports whether a type is part of another exported declaration: its readers must find the type, although
// their code need not name it.
func inExported(all []source, folder, name string) bool {
	for _, s := range all {
		if s.folder() != folder || strings.HasSuffix(s.path, "_test.go") {
			continue
		}
		for _, d := range s.file.Decls {
			if f, is := d.(*ast.FuncDecl); is && f.Name.IsExported() && names(f.Type, name) {
				return true
			}
			g, is := d.(*ast.GenDecl)
			if !is {
				continue
			}
			for _, spec := range g.Specs {
				switch spec := spec.(type) {
				case *ast.TypeSpec:
					if spec.Name.Name != name && spec.Name.IsExported() && names(spec.Type, name) {
						return true
					}
				case *ast.ValueSpec:
					if spec.Type != nil && names(spec.Type, name) || typed(g, name) {
						return true
					}
				}
			}
		}
	}
	return false
}

// typed reports whether a list of constants has the values of an exported type, one of which is name: readers of the
// type must find all of them.
func typed(g *ast.GenDecl, name string) bool {
	if g.Tok != token.CONST || len(g.Specs) < 2 {
		return false
	}
	ofType, member := false, false
	for _, s := range g.Specs {
		v := s.(*ast.ValueSpec)
		own, is := v.Type.(*ast.Ident)
		ofType = ofType || is && own.IsExported()
		member = member || slices.ContainsFunc(v.Names, func(n *ast.Ident) bool { return n.Name == name })
	}
	return ofType && member
}

// names reports whether a type or a signature contains a name.
func names(n ast.Node, name string) bool {
	found := false
	ast.Inspect(n, func(n ast.Node) bool {
		if id, is := n.(*ast.Ident); is {
			found = found || id.Name == name
		}
		return !found
	})
	return found
}
