package causefile

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"regexp"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/calico-probe/calico-probe/internal/diagnose"
	"github.com/calico-probe/calico-probe/probe"
)

// readFolder returns the causes in a folder's Markdown files, sorted by file name. code maps cause IDs to matches in
// Go.
func readFolder(files fs.FS, shared Shared, code map[string]Match) ([]*diagnose.Rule, error) {
	names, err := fs.Glob(files, "*.md")
	if err != nil {
		return nil, err
	}
	var rules []*diagnose.Rule
	var bad []error
	for _, name := range names {
		text, err := fs.ReadFile(files, name)
		if err != nil {
			return nil, err
		}
		id := strings.TrimSuffix(path.Base(name), ".md")
		rule, err := readCause(id, string(text), shared, code[id])
		if err != nil {
			bad = append(bad, fmt.Errorf("%s: %w", name, err))
			continue
		}
		rules = append(rules, rule)
	}
	for id := range code {
		if !slices.Contains(names, id+".md") {
			bad = append(bad, fmt.Errorf("%s has a match and no file", id))
		}
	}
	slices.SortFunc(bad, func(a, b error) int { return cmp.Compare(a.Error(), b.Error()) })
	return rules, errors.Join(bad...)
}

// Must returns the causes in embedded files. It panics if a file cannot be read. A test reads every file.
func Must(files fs.FS, shared Shared, code map[string]Match) []*diagnose.Rule {
	rules, err := readFolder(files, shared, code)
	if err != nil {
		panic(err)
	}
	return rules
}

// ruleID matches the valid IDs of causes.
var ruleID = regexp.MustCompile(`^[a-z0-9]+(-[a-z0-9]+)*$`)

// readCause returns the cause in one file. code is its match in Go, or nil if the file has cases.
func readCause(id, text string, shared Shared, code Match) (*diagnose.Rule, error) {
	if !ruleID.MatchString(id) || len(id) > 40 {
		return nil, fmt.Errorf("%q is not an ID: use lower-case words joined by dashes, at most 40 characters", id)
	}
	d, err := parse(text)
	if err != nil {
		return nil, err
	}
	var head front
	decoder := yaml.NewDecoder(bytes.NewReader(d.head))
	decoder.KnownFields(true)
	if err := decoder.Decode(&head); err != nil {
		return nil, fmt.Errorf("front matter: %s", oneLine(err))
	}
	layer, err := diagnose.ParseLayer(head.Layer)
	if err != nil {
		return nil, err
	}
	rule := &diagnose.Rule{
		ID: id, Layer: layer, Title: d.title, Doc: d.doc, Symptom: head.Symptom, Later: head.Later, Open: head.Open,
		Residual: head.Residual, Apart: head.Apart, Compares: head.Compares, TracedBy: head.TracedBy,
		Runbooks:  head.Runbooks,
		RefutedBy: head.RefutedBy, Wants: head.Wants, RuledOut: head.RuledOut, Explains: head.Explains,
		Match: code,
	}
	if rule.Fix, err = d.fix(head.Fix, shared); err != nil {
		return nil, err
	}
	if rule.Advice, err = d.advice(head.Advice, shared); err != nil {
		return nil, err
	}
	for _, name := range head.Runbooks {
		if !ruleID.MatchString(name) {
			return nil, fmt.Errorf("runbooks: %.40q is not a name", name)
		}
	}
	delete(d.fixes, "")
	rule.Fixes = d.fixes
	for _, name := range head.Fixes {
		fix, known := shared.Fixes[name]
		if _, own := d.fixes[name]; !known || own || code == nil {
			return nil, fmt.Errorf("fixes: %s is not a shared fix, occurs twice, or needs a match in Go", name)
		}
		rule.Fixes[name] = fix
	}
	switch {
	case code == nil && len(head.Cases) == 0:
		return nil, errors.New("no cases in the front matter, and no match in Go")
	case code != nil && len(head.Cases)+len(head.Find)+len(head.Words) > 0:
		return nil, errors.New("cases in the front matter, and a match in Go: use one of them")
	case code == nil:
		rule.Match, err = compile(head, rule, shared)
	}
	return rule, err
}

// fix returns a file's own fix, or the shared fix that it names.
func (d document) fix(name string, shared Shared) (probe.Fix, error) {
	own, has := d.fixes[""]
	named, known := shared.Fixes[name]
	switch {
	case name == "" && !has:
		return own, fmt.Errorf("no %q", fixHeading)
	case name != "" && has:
		return own, fmt.Errorf("fix: %s and %q: use one of them", name, fixHeading)
	case name != "" && !known:
		return own, fmt.Errorf("fix: %s is not a shared fix", name)
	case name != "":
		return named, nil
	}
	return own, nil
}

// advice returns a file's own advice, the shared advice that it names, or "".
func (d document) advice(name string, shared Shared) (string, error) {
	named, known := shared.Advice[name]
	switch {
	case name == "":
		return d.tips, nil
	case d.tips != "":
		return "", fmt.Errorf("advice: %s and %q: use one of them", name, advice)
	case !known:
		return "", fmt.Errorf("advice: %s is not shared advice", name)
	}
	return named, nil
}

// Advice reads the advice that causes share. Each has a heading "## Advice: NAME" and one paragraph.
func Advice(text string) (map[string]string, error) {
	out := map[string]string{}
	for pair := range slices.Chunk(split(text), 2) {
		name, found := strings.CutPrefix(pair[0], advice+": ")
		if _, twice := out[name]; !found || twice || len(pair) < 2 {
			return nil, fmt.Errorf("%q is not an advice heading with one paragraph", pair[0])
		}
		out[name] = pair[1]
	}
	return out, nil
}

// Fixes reads the fixes that causes share. They are below the headings "## Fix: NAME".
func Fixes(text string) (map[string]probe.Fix, error) { return parseFixes(split(text)) }

// oneLine formats a YAML parser error on one line.
func oneLine(err error) string { return probe.OneLine(strings.TrimPrefix(err.Error(), "yaml: ")) }
