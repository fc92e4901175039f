package runbook

import (
	"bytes"
	"embed"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/calico-probe/calico-probe/probe"
)

//go:embed builtin/*.yaml
var builtin embed.FS

// symptomSteps are the steps of each built-in runbook whose file has no steps. The file's name replaces SYMPTOM.
//
//go:embed builtin/symptom/steps.yaml
var symptomSteps string

// whole returns the text of a built-in runbook with its steps.
func whole(name string, text []byte) []byte {
	if bytes.Contains(text, []byte("\n  steps:\n")) {
		return text
	}
	return append(text, strings.ReplaceAll(symptomSteps, "SYMPTOM", strings.TrimSuffix(path.Base(name), ".yaml"))...)
}

// Item is a runbook that a user can name.
type Item struct {
	Name     string   `json:"name"`
	File     string   `json:"file"`
	Title    string   `json:"title"`
	Alerts   []string `json:"alerts"`
	BuiltIn  bool     `json:"builtin"`
	Replaces string   `json:"replaces,omitempty"` // the file of the replaced runbook with the same name
	Wrong    string   `json:"wrong,omitempty"`    // the reason why it cannot run

	Causes  []probe.Cause `json:"-"` // the causes of its symptom, with their advice
	Runbook *Runbook      `json:"-"` // nil if it is invalid
	Err     error         `json:"-"`
	Text    []byte        `json:"-"`
}

// general is the runbook for unspecified problems with a node. It covers every cause.
const general = "node-trouble"

// Library returns the runbooks by name: the built-in runbooks, and the runbooks in the folders (*.yaml, *.yml). A later
// runbook replaces an earlier runbook with the same name. An invalid runbook is included, with its error. The returned
// error is about a folder.
func Library(known Known, dirs ...string) ([]Item, error) {
	var out []Item
	add := func(it Item) {
		if i := slices.IndexFunc(out, func(had Item) bool { return had.Name == it.Name }); i >= 0 {
			it.Replaces = out[i].File
			out[i] = it
			return
		}
		out = append(out, it)
	}
	names, err := fs.Glob(builtin, "builtin/*.yaml")
	if err != nil {
		return nil, fmt.Errorf("listing the built-in runbooks: %w", err)
	}
	for _, name := range names {
		text, err := builtin.ReadFile(name)
		it := item(name, whole(name, text), err, known)
		it.BuiltIn = true
		add(it)
	}
	for _, dir := range dirs {
		entries, err := os.ReadDir(dir)
		if err != nil {
			return nil, fmt.Errorf("reading runbooks: %w", err)
		}
		for _, e := range entries {
			if ext := filepath.Ext(e.Name()); ext == ".yaml" || ext == ".yml" {
				add(ReadFile(filepath.Join(dir, e.Name()), known))
			}
		}
	}
	slices.SortFunc(out, func(a, b Item) int { return strings.Compare(a.Name, b.Name) })
	return out, nil
}

// ReadFile reads a runbook. Errors are in the returned item.
func ReadFile(name string, known Known) Item {
	info, err := os.Stat(name)
	if err == nil && !info.Mode().IsRegular() { // reading a named pipe would block
		err = fmt.Errorf("%s is not a regular file", name)
	}
	var text []byte
	if err == nil && info.Size() > maxFile {
		err = fmt.Errorf("%s is larger than a runbook can be (%d KB)", name, maxFile>>10)
	}
	if err == nil {
		text, err = os.ReadFile(name)
	}
	return item(name, text, err, known)
}

func item(file string, text []byte, err error, known Known) Item {
	it := Item{
		Name: strings.TrimSuffix(filepath.Base(file), filepath.Ext(file)), File: file, Text: text, Alerts: []string{},
		Err: err,
	}
	if err == nil {
		it.Runbook, it.Err = Load(file, text, known)
	}
	if it.Err != nil {
		it.Wrong = it.Err.Error()
		return it
	}
	it.Name, it.Title = it.Runbook.Metadata.Name, it.Runbook.Spec.Title
	it.Alerts = append(it.Alerts, it.Runbook.Spec.Alerts...)
	for _, c := range known.Advice {
		if c.Advice != "" && (it.Name == general || slices.Contains(c.Runbooks, it.Name)) {
			it.Causes = append(it.Causes, c)
		}
	}
	return it
}

// Given validates the user's parameters, answers and actions. It returns the parameters, including defaults, and the
// answers in full. The error is a Mistake.
func (rb *Runbook) Given(params, answers map[string]string, actions []string) (all, full map[string]string, err error) {
	all, full = map[string]string{}, map[string]string{}
	var names, asks, acts []string
	var missing []string
	for _, p := range rb.Spec.Params {
		names = append(names, p.Name)
		if v, ok := params[p.Name]; ok {
			all[p.Name] = v
		} else if p.Default != nil {
			all[p.Name] = *p.Default
		} else {
			missing = append(missing, p.Name)
		}
	}
	options := map[string][]string{}
	rb.each(func(s *Step) {
		if s.Ask != nil {
			asks, options[s.Name] = append(asks, s.Name), s.Ask.Options
		}
		if s.Action != nil {
			acts = append(acts, s.Name)
		}
	})
	mistake := func(format string, args ...any) error { return Mistake{fmt.Errorf(format, args...)} }
	for name := range params {
		if !slices.Contains(names, name) {
			return nil, nil, mistake("runbook %s takes no parameter %q%s", rb.Metadata.Name, name, orThere(name, names))
		}
	}
	if len(missing) > 0 {
		return nil, nil, mistake("runbook %s needs --param %s=VALUE", rb.Metadata.Name, strings.Join(missing, "=VALUE --param "))
	}
	for name, text := range answers {
		if !slices.Contains(asks, name) {
			return nil, nil, mistake("runbook %s has no ask named %q%s", rb.Metadata.Name, name, orThere(name, asks))
		}
		answer, ok := option(options[name], text)
		if !ok {
			return nil, nil, mistake("%q is not a valid answer to %s: it takes %s", text, name, strings.Join(append([]string{"some text"}, options[name]...)[min(1, len(options[name])):], ", "))
		}
		full[name] = answer
	}
	for _, name := range actions {
		if !slices.Contains(acts, name) {
			return nil, nil, mistake("runbook %s has no action named %q%s", rb.Metadata.Name, name, orThere(name, acts))
		}
	}
	return all, full, nil
}

// orThere returns a hint with the nearest name, or with all names.
func orThere(typed string, names []string) string {
	switch near := Nearest(typed, names); {
	case near != "":
		return near
	case len(names) > 0:
		return ": it has " + strings.Join(names, ", ")
	}
	return ": it has none"
}

// Actions returns the names of the steps with an action.
func (rb *Runbook) Actions() []string {
	var out []string
	rb.each(func(s *Step) {
		if s.Action != nil {
			out = append(out, s.Name)
		}
	})
	return out
}
