// Command prose counts sentences that read as if translated, with vale and the styles beside it. It fails if a count
// exceeds counts.json, if the styles miss a bad example in testdata/examples.txt, or if they flag a good one.
//
//	tracked files -> texts (comments, messages, names, docs), on the lines they have -> vale -> counts by kind and rule
//
// vale reads only comments in Go, so go/ast takes the texts out. With -list KIND/RULE it prints the places. With
// -write it writes counts.json, after a change that lowers a count. With -draw it prints random sentences. It leaves
// out tests and recorded data.
package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// here is the folder of the styles and of the counts, from the top of the project.
const here = "test/prose"

func main() {
	vale := flag.String("vale", "vale", "path of the vale program")
	list := flag.String("list", "", "print the places of one KIND/RULE")
	write := flag.Bool("write", false, "write counts.json")
	number := flag.Int("draw", 0, "print so many random sentences of each kind, for a reader to judge, and stop")
	seed := flag.Uint64("seed", 1, "decides which sentences -draw prints")
	flag.Parse()
	var err error
	if *number > 0 {
		var texts []text
		if texts, err = extractAll(); err == nil {
			draw(texts, *number, *seed)
		}
	} else {
		err = run(*vale, *list, *write)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "prose:", err)
		os.Exit(1)
	}
}

func run(vale, list string, write bool) error {
	if err := tryExamples(vale); err != nil {
		return err
	}
	texts, err := extractAll()
	if err != nil {
		return err
	}
	alerts, err := judge(vale, texts)
	if err != nil {
		return err
	}
	counts := map[string]int{}
	for _, a := range alerts {
		kind, file, _ := strings.Cut(a.file, "/")
		id := kind + "/" + a.rule
		counts[id]++
		if id == list {
			fmt.Printf("%s:%d: %s\n", strings.TrimSuffix(file, ".txt"), a.line, a.match)
		}
	}
	return compare(counts, write)
}

// compare holds the counts to those that are written down.
func compare(counts map[string]int, write bool) error {
	path := filepath.Join(here, "counts.json")
	if write {
		b, err := json.MarshalIndent(counts, "", "  ")
		if err != nil {
			return err
		}
		return os.WriteFile(path, append(b, '\n'), 0o644)
	}
	b, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	limits := map[string]int{}
	if err := json.Unmarshal(b, &limits); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	var grown []error
	for _, id := range slices.Sorted(maps.Keys(counts)) {
		if counts[id] > limits[id] {
			grown = append(grown, fmt.Errorf("%s: %d, at most %d; 'go run ./%s -list %s' shows where",
				id, counts[id], limits[id], here, id))
		}
	}
	return errors.Join(grown...)
}

// text is what one file has of one kind, each piece on the line that it has in the file.
type text struct {
	kind, path string // kind: comments, messages, names, docs, or causes, which has the words of checks too
	lines      map[int]string
}

// extractAll takes the texts out of all files that git tracks, but for tests and recorded data.
func extractAll() ([]text, error) {
	out, err := exec.Command("git", "ls-files", "*.go", "*.md").Output()
	if err != nil {
		return nil, fmt.Errorf("listing files: %w", err)
	}
	var all []text
	for path := range strings.Lines(string(out)) {
		path = strings.TrimSpace(path)
		switch {
		case strings.HasSuffix(path, "_test.go"), strings.Contains(path, "testdata/"), strings.HasSuffix(path, "zh-CN.md"):
		case strings.HasSuffix(path, ".md"):
			b, err := os.ReadFile(path)
			if err != nil {
				return nil, err
			}
			kind := map[bool]string{true: "causes", false: "docs"}[strings.HasPrefix(path, "internal/")]
			doc := text{kind, path, map[int]string{}}
			for i, line := range strings.Split(string(b), "\n") {
				doc.lines[i+1] = line
			}
			all = append(all, doc)
		default:
			texts, err := ofGo(path)
			if err != nil {
				return nil, err
			}
			all = append(all, texts...)
		}
	}
	return all, nil
}

// ofGo are the comments, the messages (string literals of three words or more) and the declared names of a Go file.
func ofGo(path string) ([]text, error) {
	set := token.NewFileSet()
	file, err := parser.ParseFile(set, path, nil, parser.ParseComments)
	if err != nil {
		return nil, err
	}
	comments, messages := text{"comments", path, map[int]string{}}, text{"messages", path, map[int]string{}}
	names := text{"names", path, map[int]string{}}
	for _, group := range file.Comments {
		last := 0
		for _, c := range group.List {
			last = set.Position(c.Pos()).Line
			for i, line := range strings.Split(strings.Trim(c.Text, "/*"), "\n") {
				comments.lines[last+i] = strings.TrimSpace(line)
			}
		}
		// no sentence continues in the comment of the next field or statement
		comments.lines[last] = ended(comments.lines[last])
	}
	ast.Inspect(file, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.ImportSpec:
			return false
		case *ast.CallExpr:
			return !makesRegexp(n)
		case *ast.BasicLit:
			if s, err := strconv.Unquote(n.Value); err == nil && n.Kind == token.STRING && len(strings.Fields(s)) > 2 {
				at := set.Position(n.Pos()).Line
				for i, line := range strings.Split(ended(s), "\n") {
					messages.lines[at+i] += line + " "
				}
			}
		case *ast.Ident:
			if n.Obj != nil && n.Obj.Pos() == n.Pos() {
				names.lines[set.Position(n.Pos()).Line] += n.Name + " "
			}
		}
		return true
	})
	return []text{comments, messages, names}, nil
}

// ended ends the last sentence of a text, unless the text continues elsewhere: then it ends in a space.
func ended(text string) string {
	if text == "" || strings.ContainsAny(text[len(text)-1:], ".:!? \n") {
		return text
	}
	return text + "."
}

// makesRegexp reports whether a call compiles a regular expression. Its text is no sentence.
func makesRegexp(call *ast.CallExpr) bool {
	called, ok := call.Fun.(*ast.SelectorExpr)
	if !ok {
		return false
	}
	name := fmt.Sprint(called.X, ".", called.Sel)
	return name == "lazy.New" || name == "regexp.MustCompile"
}

// alert is one place that a rule finds; file is KIND/PATH.
type alert struct {
	file, rule, match string
	line              int
}

// judge writes texts into a folder and has vale read them. The rule of names is for names, the others for the rest.
func judge(vale string, texts []text) ([]alert, error) {
	dir, err := os.MkdirTemp("", "prose")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	for _, t := range texts {
		var b bytes.Buffer
		last := 0
		for _, n := range slices.Sorted(maps.Keys(t.lines)) {
			b.WriteString(strings.Repeat("\n", n-max(last, 1)) + t.lines[n])
			last = n
		}
		b.WriteString("\n")
		path := filepath.Join(dir, t.kind, t.path)
		if filepath.Ext(path) != ".md" { // which vale reads as Markdown
			path += ".txt"
		}
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o700), os.WriteFile(path, b.Bytes(), 0o600)); err != nil {
			return nil, err
		}
	}
	config, err := filepath.Abs(filepath.Join(here, "vale.ini"))
	if err != nil {
		return nil, err
	}
	var out, errs bytes.Buffer
	cmd := exec.Command(vale, "--no-exit", "--no-global", "--output=JSON", "--config="+config, dir)
	cmd.Stdout, cmd.Stderr = &out, &errs
	if err := cmd.Run(); err != nil {
		return nil, fmt.Errorf("%s: %w: %s", vale, err, errs.String())
	}
	found := map[string][]struct {
		Check, Match string
		Line         int
	}{}
	if err := json.Unmarshal(out.Bytes(), &found); err != nil {
		return nil, fmt.Errorf("what vale printed: %w", err)
	}
	var all []alert
	for file, alerts := range found {
		rel, err := filepath.Rel(dir, file)
		if err != nil {
			return nil, err
		}
		for _, a := range alerts {
			rule := strings.TrimPrefix(a.Check, "plain.")
			if strings.HasPrefix(rel, "names/") == (rule == "Names") {
				all = append(all, alert{rel, rule, a.Match, a.Line})
			}
		}
	}
	slices.SortFunc(all, func(a, b alert) int {
		return strings.Compare(fmt.Sprintf("%s:%6d", a.file, a.line), fmt.Sprintf("%s:%6d", b.file, b.line))
	})
	return all, nil
}

// tryExamples requires that every bad example is flagged, and no good one.
func tryExamples(vale string) error {
	b, err := os.ReadFile(filepath.Join(here, "testdata", "examples.txt"))
	if err != nil {
		return err
	}
	var texts []text
	for i, line := range strings.Split(strings.TrimSpace(string(b)), "\n") {
		bad, good, ok := strings.Cut(line, " | ")
		if !ok {
			return fmt.Errorf("example %d has no better sentence", i+1)
		}
		kind := map[bool]string{true: "messages", false: "names"}[strings.Contains(bad, " ")]
		texts = append(texts, text{kind, fmt.Sprintf("bad%d", i+1), map[int]string{1: bad}},
			text{kind, fmt.Sprintf("good%d", i+1), map[int]string{1: good}})
	}
	alerts, err := judge(vale, texts)
	if err != nil {
		return err
	}
	var wrong []error
	for _, t := range texts {
		has := slices.ContainsFunc(alerts, func(a alert) bool { return a.file == t.kind+"/"+t.path+".txt" })
		if has != strings.HasPrefix(t.path, "bad") {
			wrong = append(wrong, fmt.Errorf("example %s: found %v: %s", t.path, has, t.lines[1]))
		}
	}
	return errors.Join(wrong...)
}
