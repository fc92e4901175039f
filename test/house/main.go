// Command house measures the project's structure: package sizes, exported names, and the direction of references. "go
// run ./test/house" prints one line per figure, for the project or for another Go module's folder. TestHouse and
// TestRooms of cmd/calico-probe fail if a figure gets worse. It reads the sources and commit subjects, and changes
// nothing.
package main

import (
	"fmt"
	"go/ast"
	"go/token"
	"go/types"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/mod/modfile"
	"golang.org/x/tools/go/packages"
)

func main() {
	root := "."
	if len(os.Args) > 1 {
		root = os.Args[1]
	}
	if err := measure(root); err != nil {
		fmt.Fprintln(os.Stderr, "house:", err)
		os.Exit(1)
	}
}

// measure prints the figures of the module in a folder.
func measure(root string) error {
	all, err := packages.Load(&packages.Config{
		Dir: root,
		Mode: packages.NeedName | packages.NeedFiles | packages.NeedSyntax | packages.NeedTypes | packages.NeedTypesInfo |
			packages.NeedImports | packages.NeedDeps,
	}, "./...")
	if err != nil {
		return err
	}
	if n := packages.PrintErrors(all); n > 0 {
		return fmt.Errorf("%d errors in the sources", n)
	}
	var h house
	for _, p := range all {
		h.add(p)
	}
	folders, err := topFolders(root)
	if err != nil {
		return err
	}
	tests, err := testLines(root)
	if err != nil {
		return err
	}
	direct, err := directDeps(root)
	if err != nil {
		return err
	}
	fmt.Printf("top folders            %d\n", folders)
	fmt.Printf("functions              p90 %d lines, %d above 60\n", at(h.functions, 90), above(h.functions, 60))
	fmt.Printf("files                  median %d, max %d lines\n", at(h.files, 50), at(h.files, 100))
	fmt.Printf("exports a package      median %d, max %d\n", at(h.exports, 50), at(h.exports, 100))
	fmt.Printf("comments               %.1f %% of %d lines\n", 100*float64(h.comments)/float64(h.lines), h.lines)
	fmt.Printf("test:code              %.2f\n", float64(tests)/float64(h.lines))
	fmt.Printf("direct dependencies    %d\n", direct)
	fmt.Printf("commit subjects        p90 %d columns\n", at(subjects(root), 90))
	h.printGrain()
	return nil
}

// house is what the packages of a module add up to.
type house struct {
	functions, files, exports []int
	lines, comments           int
	rooms                     []room
}

// A room is a package: how many references its files make to each other, and how many of them run against the grain.
type room struct {
	name            string
	files           int
	references, bad int
}

func (h *house) add(p *packages.Package) {
	exported := 0
	for _, name := range p.Types.Scope().Names() {
		if ast.IsExported(name) {
			exported++
		}
	}
	h.exports = append(h.exports, exported)
	for _, f := range p.Syntax {
		lines := p.Fset.File(f.FileStart).LineCount()
		h.files = append(h.files, lines)
		h.lines += lines
		for _, group := range f.Comments {
			h.comments += span(p.Fset, group)
		}
		for _, d := range f.Decls {
			if f, is := d.(*ast.FuncDecl); is {
				h.functions = append(h.functions, span(p.Fset, f))
			}
		}
	}
	r := room{name: p.PkgPath, files: len(p.Syntax)}
	r.references, r.bad = grain(uses(p))
	h.rooms = append(h.rooms, r)
}

// uses counts, from file to file of a package, the names of one that the other uses.
func uses(p *packages.Package) [][]int {
	of := map[string]int{}
	for i, f := range p.Syntax {
		of[p.Fset.File(f.FileStart).Name()] = i
	}
	out := make([][]int, len(p.Syntax))
	for i, f := range p.Syntax {
		out[i] = make([]int, len(p.Syntax))
		seen := map[types.Object]bool{}
		ast.Inspect(f, func(n ast.Node) bool {
			id, is := n.(*ast.Ident)
			if !is {
				return true
			}
			o := p.TypesInfo.Uses[id]
			if o == nil || o.Pkg() != p.Types || seen[o] || !atTop(o, p.Types) {
				return true
			}
			seen[o] = true
			if to, known := of[p.Fset.File(o.Pos()).Name()]; known && to != i {
				out[i][to]++
			}
			return true
		})
	}
	return out
}

// atTop reports whether a name is declared at the top of a package, or is a method there.
func atTop(o types.Object, p *types.Package) bool {
	f, is := o.(*types.Func)
	return o.Parent() == p.Scope() || is && f.Signature().Recv() != nil
}

// grain puts the files into an order in which few references run back, and returns how many references there are and
// how many run back: each file is moved to its best place until none is better off elsewhere.
func grain(uses [][]int) (all, back int) {
	order := make([]int, len(uses))
	for i := range order {
		order[i] = i
	}
	for moved := true; moved; {
		moved = false
		for i := range uses {
			from := slices.Index(order, i)
			without := slices.Delete(slices.Clone(order), from, from+1)
			if to := bestPlace(uses, without, i, from); to != from {
				order, moved = slices.Insert(without, to, i), true
			}
		}
	}
	for at, i := range order {
		for place, j := range order {
			all += uses[i][j]
			if place < at {
				back += uses[i][j]
			}
		}
	}
	return all, back
}

// bestPlace returns the position of a file, relative to the others, with the fewest backward references. Without a
// better position it returns the present one.
func bestPlace(uses [][]int, others []int, file, own int) int {
	cost := 0 // at the top, whatever others use of it runs back
	for _, j := range others {
		cost += uses[j][file]
	}
	costs := []int{cost}
	for _, j := range others { // one place further down
		cost += uses[file][j] - uses[j][file]
		costs = append(costs, cost)
	}
	if least := slices.Min(costs); costs[own] > least {
		return slices.Index(costs, least)
	}
	return own
}

// fewest is how many references a room needs to be judged by.
const fewest = 20

func (h *house) printGrain() {
	all, bad := 0, 0
	slices.SortFunc(h.rooms, func(a, b room) int { return b.bad*max(a.references, 1) - a.bad*max(b.references, 1) })
	for _, r := range h.rooms {
		all, bad = all+r.references, bad+r.bad
	}
	fmt.Printf("against the grain      %d of %d references\n", bad, all)
	for _, r := range h.rooms {
		if r.references >= fewest && 10*r.bad > r.references {
			fmt.Printf("  %3d %% of %4d  %s (%d files)\n", 100*r.bad/r.references, r.references, r.name, r.files)
		}
	}
}

func span(set *token.FileSet, n ast.Node) int {
	return set.Position(n.End()).Line - set.Position(n.Pos()).Line + 1
}

// at is a percentile.
func at(of []int, percent int) int {
	if len(of) == 0 {
		return 0
	}
	of = slices.Sorted(slices.Values(of))
	return of[(len(of)-1)*percent/100]
}

func above(of []int, limit int) int {
	n := 0
	for _, one := range of {
		if one > limit {
			n++
		}
	}
	return n
}

func topFolders(root string) (int, error) {
	entries, err := os.ReadDir(root)
	n := 0
	for _, e := range entries {
		if e.IsDir() && !strings.HasPrefix(e.Name(), ".") && e.Name() != "bin" {
			n++
		}
	}
	return n, err
}

// testLines counts the lines of tests, those with build tags too.
func testLines(root string) (int, error) {
	n := 0
	err := filepath.WalkDir(root, func(path string, d os.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && path != root && strings.HasPrefix(d.Name(), "."):
			return filepath.SkipDir
		case d.IsDir() || !strings.HasSuffix(path, "_test.go"):
			return nil
		}
		b, err := os.ReadFile(path)
		n += strings.Count(string(b), "\n")
		return err
	})
	return n, err
}

func directDeps(root string) (int, error) {
	b, err := os.ReadFile(filepath.Join(root, "go.mod"))
	if err != nil {
		return 0, err
	}
	mod, err := modfile.Parse("go.mod", b, nil)
	if err != nil {
		return 0, err
	}
	n := 0
	for _, r := range mod.Require {
		if !r.Indirect {
			n++
		}
	}
	return n, nil
}

// subjects are the widths of the last hundred commit subjects, none outside a repository.
func subjects(root string) []int {
	cmd := exec.Command("git", "log", "-100", "--format=%s")
	cmd.Dir = root
	out, err := cmd.Output()
	if err != nil {
		return nil
	}
	var widths []int
	for line := range strings.Lines(string(out)) {
		widths = append(widths, len(strings.TrimSpace(line)))
	}
	return widths
}
