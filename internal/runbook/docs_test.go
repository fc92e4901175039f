package runbook_test

import (
	"fmt"
	"os"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/calico-probe/calico-probe/internal/runbook"
	"github.com/calico-probe/calico-probe/probe/must"
)

// TestGuide holds the guide to the types, the words of expressions, and its example to lint.
func TestGuide(t *testing.T) {
	t.Parallel()
	b := must.Get(os.ReadFile("../../docs/runbooks.md"))(t)
	vars, funcs, results, causes, groups := runbook.Words()
	guide := string(b)
	fill := func(mark, with string) {
		if *update {
			guide = strings.Replace(guide, mark, with, 1)
		}
	}
	rows := func(words []runbook.Word) string {
		var out []string
		for _, w := range words {
			out = append(out, fmt.Sprintf("| `%s` | %s | %s |", w.Name, w.Type, w.Doc))
		}
		return strings.Join(out, "\n")
	}
	ticked := func(names []string) string { return "`" + strings.Join(names, "`, `") + "`" }
	for mark, with := range map[string]string{
		"VARIABLES": rows(vars), "FUNCTIONS": rows(funcs), "RESULTS": ticked(results), "CAUSES": ticked(causes),
		"GROUPS": ticked(groups),
	} {
		fill(mark, with)
		if !strings.Contains(guide, with) {
			t.Errorf("docs/runbooks.md lacks this:\n%s", with)
		}
	}
	if *update {
		must.Do(t, os.WriteFile("../../docs/runbooks.md", []byte(guide), 0o644))
	}
	_, safe, _ := strings.Cut(guide, "`lint` refuses `${...}` in the script")
	for _, name := range runbook.Behind() {
		if !regexp.MustCompile(`\b` + name + `\b`).MatchString(safe) {
			t.Errorf("docs/runbooks.md does not say that lint finds scripts of, or behind, %s", name)
		}
	}
	_, fields, _ := strings.Cut(guide, "## What a file has")
	var walk func(reflect.Type)
	var been []reflect.Type
	walk = func(typ reflect.Type) {
		for typ.Kind() == reflect.Pointer || typ.Kind() == reflect.Slice {
			typ = typ.Elem()
		}
		if typ.Kind() != reflect.Struct || slices.Contains(been, typ) {
			return
		}
		been = append(been, typ)
		for f := range typ.Fields() {
			name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
			if name != "" && !regexp.MustCompile("`([a-z]+\\.)?"+name+"[`.]").MatchString(fields) {
				t.Errorf("docs/runbooks.md does not name the field %s of %s", name, typ.Name())
			}
			walk(f.Type)
		}
	}
	walk(reflect.TypeFor[runbook.Runbook]())
	for _, section := range regexp.MustCompile("(?s)   ```yaml\n(.*?)   ```").FindAllStringSubmatch(guide, -1) {
		text := regexp.MustCompile(`(?m)^   `).ReplaceAllString(section[1], "")
		rb, err := runbook.Load("docs/runbooks.md", []byte(text), known())
		if err != nil {
			t.Error(err)
			continue
		}
		for _, odd := range rb.Warnings() {
			t.Error(odd)
		}
	}
}
