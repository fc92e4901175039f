package main

import (
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/calico-probe/calico-probe/probe/must"
)

// promising are the sections of docs/security.md in which every bullet, row and paragraph is a promise with its number:
// (P7).
var promising = []string{"In short", "What is left behind", "What does not leave the node", "Who might be hostile"}

var (
	promise  = regexp.MustCompile(`\bP(\d+)\b`)
	testName = regexp.MustCompile("`((?:Test|Fuzz)\\w+)`")
	mutant   = regexp.MustCompile(`(?m)^-- (P\d+) .* --\n\S+ \S+ (\w+)$`)
	testFunc = regexp.MustCompile(`(?m)^func ((?:Test|Fuzz)\w+)\(`)
)

// TestEveryPromiseHasATest requires each promise of docs/security.md to have a row in its table, and each row to name
// an existing test or the reason for none. Each row has a mutant, which names the test that must kill it.
func TestEveryPromiseHasATest(t *testing.T) {
	text := must.Get(os.ReadFile("../../docs/security.md"))(t)
	made, kept := map[string]bool{}, map[string]bool{}
	tests, mutants := everyTest(t), everyMutant(t)
	sections := 0
	for section := range strings.SplitSeq(string(text), "\n## ") {
		title, body, _ := strings.Cut(section, "\n")
		if slices.Contains(promising, title) {
			sections++
			for _, block := range blocksOf(body) {
				if !promise.MatchString(block) {
					t.Errorf("%s: no promise is named by %q", title, block)
				}
				for _, p := range promise.FindAllString(block, -1) {
					made[p] = true
				}
			}
		}
		if !strings.HasPrefix(title, "Every promise") {
			continue
		}
		for row := range strings.Lines(body) {
			cells := strings.Split(row, "|")
			if len(cells) < 4 || !promise.MatchString(cells[1]) {
				continue
			}
			number := promise.FindString(cells[1])
			if kept[number] {
				t.Errorf("%s stands in the table twice", number)
			}
			kept[number] = true
			named := testName.FindAllStringSubmatch(cells[3], -1)
			if len(named) == 0 && !strings.Contains(cells[3], "no test: ") {
				t.Errorf("%s names no test, and does not say why there is none: %s", number, row)
			}
			for _, n := range named {
				if !tests[n[1]] {
					t.Errorf("%s names %s, and there is no such test", number, n[1])
				}
			}
			if len(mutants[number]) == 0 {
				t.Errorf("%s has no mutant in test/e2e/mutants/mutants.txtar", number)
			}
			for _, killer := range mutants[number] {
				if !slices.ContainsFunc(named, func(n []string) bool { return n[1] == killer }) {
					t.Errorf("%s does not name %s, which kills a mutant of it", number, killer)
				}
			}
		}
	}
	if sections != len(promising) {
		t.Errorf("%d of the sections %q were found", sections, promising)
	}
	for _, p := range slices.Sorted(maps.Keys(made)) {
		if !kept[p] {
			t.Errorf("%s is promised and does not stand in the table", p)
		}
	}
	for _, p := range slices.Sorted(maps.Keys(mutants)) {
		if !kept[p] {
			t.Errorf("%s has a mutant and no row in the table", p)
		}
	}
	for _, p := range slices.Sorted(maps.Keys(kept)) {
		if !made[p] {
			t.Errorf("%s stands in the table, and nothing promises it", p)
		}
	}
}

// blocksOf returns the paragraphs, bullets and table rows of a Markdown section, without table heads and introductions
// of lists.
func blocksOf(body string) (blocks []string) {
	for paragraph := range strings.SplitSeq(body, "\n\n") {
		lines := strings.Split(strings.TrimSpace(paragraph), "\n")
		switch {
		case strings.HasPrefix(lines[0], "|"):
			blocks = append(blocks, lines[min(2, len(lines)):]...)
		case strings.HasPrefix(lines[0], "- "):
			blocks = append(blocks, strings.Split(strings.TrimSpace(paragraph), "\n- ")...)
		case lines[0] != "" && !strings.HasPrefix(lines[0], "Every promise") && !strings.HasSuffix(lines[len(lines)-1], ":"):
			blocks = append(blocks, paragraph)
		}
	}
	return blocks
}

// everyMutant returns the tests that must kill the mutants of each row.
func everyMutant(t *testing.T) map[string][]string {
	t.Helper()
	text := must.Get(os.ReadFile("../../test/e2e/mutants/mutants.txtar"))(t)
	out := map[string][]string{}
	for _, m := range mutant.FindAllStringSubmatch(string(text), -1) {
		out[m[1]] = append(out[m[1]], m[2])
	}
	return out
}

// everyTest returns the names of all tests of the project.
func everyTest(t *testing.T) map[string]bool {
	t.Helper()
	names := map[string]bool{}
	must.Do(t, filepath.WalkDir("../..", func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && strings.HasPrefix(d.Name(), ".") && len(d.Name()) > 2:
			return fs.SkipDir
		case d.IsDir() || !strings.HasSuffix(path, "_test.go"):
			return nil
		}
		text, err := os.ReadFile(path)
		for _, m := range testFunc.FindAllStringSubmatch(string(text), -1) {
			names[m[1]] = true
		}
		return err
	}))
	return names
}
