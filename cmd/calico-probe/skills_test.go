package main

import (
	"encoding/json"
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"

	"github.com/calico-probe/calico-probe/internal/subject/suite/cause"
)

// TestSkills requires valid skills from 'docs': a readable head, and existing tools, arguments and causes.
func TestSkills(t *testing.T) {
	t.Parallel()
	skills := 0
	for name, text := range docsPages(t) {
		if folder, file := path.Split(name); file == "SKILL.md" {
			lintSkill(t, path.Base(folder), text)
			skills++
		}
	}
	if skills == 0 {
		t.Error("docs writes no skill")
	}
}

// lintSkill checks a skill against the rules of agents' programs, and its words against this program.
func lintSkill(t *testing.T, name, text string) {
	t.Helper()
	_, rest, _ := strings.Cut(text, "---\n")
	head, body, ok := strings.Cut(rest, "---\n")
	var front struct{ Name, Description string }
	if err := yaml.Unmarshal([]byte(head), &front); err != nil || !ok {
		t.Fatalf("%s: its head: %v", name, err)
	}
	if front.Name != name || len(name) > 64 || len(front.Description) < 40 || len(front.Description) > 1024 {
		t.Errorf("%s: %+v", name, front)
	}
	if strings.Count(body, "\n") > 200 || strings.Contains(body, "${") {
		t.Errorf("%s is too long, or has an expression left:\n%s", name, body)
	}
	tools := map[string][]string{
		"run": {"node", "profile", "via", "checks"}, "explain": {"id"}, "result": {"id", "check"},
		"triage": {"nodes", "selector"},
	}
	calls := regexp.MustCompile("(?m)^[0-9]+\\. `([a-z]+)` with `([^`]*)`").FindAllStringSubmatch(body, -1)
	if len(calls) == 0 || len(calls) > 3 {
		t.Errorf("%s has %d calls", name, len(calls))
	}
	for _, c := range calls {
		var args map[string]any
		if err := json.Unmarshal([]byte(c[2]), &args); err != nil || tools[c[1]] == nil {
			t.Errorf("%s: %s: %v", name, c[0], err)
		}
		for arg := range args {
			if !slices.Contains(tools[c[1]], arg) {
				t.Errorf("%s: %s takes no %s", name, c[1], arg)
			}
		}
	}
	for _, row := range regexp.MustCompile("(?m)^\\| (`[^|]*) \\|").FindAllStringSubmatch(body, -1) {
		for _, id := range regexp.MustCompile("`([a-z0-9-]+)`").FindAllStringSubmatch(row[1], -1) {
			if !slices.Contains(cause.All().IDs(), id[1]) {
				t.Errorf("%s: there is no cause %s", name, id[1])
			}
		}
	}
}
