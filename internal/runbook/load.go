package runbook

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/calico-probe/calico-probe/internal/suggest"
)

// maxFile is the maximum size of a runbook in bytes.
const maxFile = 1 << 20

// Finding is an error or a warning about a runbook.
type Finding struct {
	File    string
	Line    int // from 1
	What    string
	Warning bool // the runbook can still run
}

func (f Finding) String() string {
	mark := ""
	if f.Warning {
		mark = "warning: "
	}
	return fmt.Sprintf("%s:%d: %s%s", f.File, f.Line, mark, f.What)
}

// LintError has a runbook's errors in line order. There is at least one.
type LintError []Finding

func (e LintError) Error() string {
	if len(e) == 1 {
		return e[0].String()
	}
	return fmt.Sprintf("%s (and %d more; 'calico-probe runbook lint' lists them)", e[0], len(e)-1)
}

// Load reads and lints a runbook. In findings, file is the runbook's name. Any error is a LintError.
func Load(file string, text []byte, known Known) (*Runbook, error) {
	l := &linter{file: file, known: known, lines: map[string]int{}}
	rb := l.decode(text)
	if rb != nil {
		l.lint(rb)
	}
	slices.SortStableFunc(l.findings, func(a, b Finding) int { return a.Line - b.Line })
	found := slices.Compact(l.findings)
	if wrong := slices.DeleteFunc(slices.Clone(found), func(f Finding) bool { return f.Warning }); len(wrong) > 0 {
		return nil, LintError(wrong)
	}
	rb.source, rb.warnings = string(text), found
	return rb, nil
}

// Warnings returns the warnings about a valid runbook, in line order.
func (rb *Runbook) Warnings() []Finding { return rb.warnings }

// Digest identifies the text: the first hexadecimal digits of its SHA-256.
func (rb *Runbook) Digest() string {
	sum := sha256.Sum256([]byte(rb.source))
	return hex.EncodeToString(sum[:8])
}

// Source returns the text of the file.
func (rb *Runbook) Source() string { return rb.source }

// decode reads the fields. If a field is malformed, the other fields are still linted. It returns nil if nothing can be
// linted. It does not use sigs.k8s.io/yaml, which follows YAML 1.1: there, the key "on" and the answer "no" are
// booleans.
func (l *linter) decode(text []byte) *Runbook {
	if len(text) > maxFile {
		l.find("", "is larger than a runbook can be (%d KB)", maxFile>>10)
		return nil
	}
	d := yaml.NewDecoder(bytes.NewReader(text))
	var doc yaml.Node
	err := d.Decode(&doc)
	if errors.Is(err, io.EOF) {
		l.find("", "is empty")
		return nil
	}
	if err != nil {
		l.yamlError(err)
		return nil
	}
	if err := d.Decode(new(yaml.Node)); !errors.Is(err, io.EOF) {
		l.find("", "has more than one document: write one runbook per file")
		return nil
	}
	l.form("", doc.Content[0], reflect.TypeFor[Runbook]())
	var value any
	if err := doc.Decode(&value); err != nil { // a duplicate key
		l.yamlError(err)
		return nil
	}
	b, err := json.Marshal(value)
	if err != nil {
		l.find("", "%v", err)
		return nil
	}
	rb := &Runbook{}
	if err := json.Unmarshal(b, rb); err != nil {
		l.find("", "%v", err)
		return nil
	}
	return rb
}

// yamlError splits the parser's message ("yaml: line 3: ...") and adds a hint.
func (l *linter) yamlError(err error) {
	texts := []string{strings.TrimPrefix(err.Error(), "yaml: ")}
	if several, ok := errors.AsType[*yaml.TypeError](err); ok {
		texts = several.Errors
	}
	for _, text := range texts {
		line := 1
		if rest, ok := strings.CutPrefix(text, "line "); ok {
			if n, what, ok := strings.Cut(rest, ": "); ok {
				if at, err := strconv.Atoi(n); err == nil {
					line, text = at, what
				}
			}
		}
		if strings.Contains(text, "',' or '}'") { // the usual mistake with ${...}
			text += "; within { } a text with a comma, a ? or a ${...} needs quotes"
		}
		if strings.Contains(text, "mapping values are not allowed") {
			text += "; a text with a colon and a space in it needs quotes"
		}
		if strings.Contains(text, "cannot start any token") {
			text += "; a text that begins with it needs quotes"
		}
		l.findAt(line, "is not valid YAML: %s", text)
	}
}

// misform reports a malformed field and clears its value. The fields next to it can then still be read.
func (l *linter) misform(path string, n *yaml.Node, format string, args ...any) {
	l.findAt(l.line(path), format, args...)
	l.unread = append(l.unread, path)
	*n = yaml.Node{Kind: yaml.ScalarNode, Tag: "!!null"}
}

// form checks a YAML node against its Go type, and records the line of each field.
func (l *linter) form(path string, n *yaml.Node, t reflect.Type) {
	l.lines[path] = n.Line
	if n.Kind == yaml.ScalarNode && n.Style&(yaml.LiteralStyle|yaml.FoldedStyle) != 0 {
		l.lines[path]++ // its text begins on the next line
	}
	if n.Kind == yaml.AliasNode {
		l.misform(path, n, "YAML aliases (*%s) are not supported: write the value out", n.Value)
		return
	}
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	want := func(kind yaml.Kind, what string) bool {
		is := n.Kind == kind
		if !is {
			l.misform(path, n, "%s must be %s", field(path), what)
		}
		return is
	}
	switch {
	case t == reflect.TypeFor[Duration]():
		if want(yaml.ScalarNode, "a duration such as 90s or 5m") {
			if _, err := parseDuration(n.Value); err != nil {
				l.misform(path, n, "%s: %v", field(path), err)
			}
		}
	case t.Kind() == reflect.Struct:
		if !want(yaml.MappingNode, "a mapping: "+strings.Join(fieldsOf(t), ", ")) {
			return
		}
		for i := 0; i+1 < len(n.Content); i += 2 {
			key, value := n.Content[i], n.Content[i+1]
			at := strings.TrimPrefix(path+"."+key.Value, ".")
			of := fieldOf(t, key.Value)
			if of == nil {
				l.lines[at] = key.Line
				l.misform(at, value, "unknown field %q%s: use one of %s", key.Value, Nearest(key.Value, fieldsOf(t)), strings.Join(fieldsOf(t), ", "))
				continue
			}
			l.form(at, value, of)
		}
	case t.Kind() == reflect.Slice:
		if want(yaml.SequenceNode, "a list") {
			for i, item := range n.Content {
				l.form(fmt.Sprintf("%s[%d]", path, i), item, t.Elem())
			}
		}
	case t.Kind() == reflect.Int:
		if !want(yaml.ScalarNode, "a number") {
			return
		}
		if _, err := strconv.Atoi(n.Value); err != nil {
			l.misform(path, n, "%s must be a number, not %q", field(path), n.Value)
		}
	case t.Kind() == reflect.String:
		if want(yaml.ScalarNode, "a text") && n.ShortTag() != "!!str" {
			l.misform(path, n, "%s must be a text: write \"%s\", in quotes", field(path), n.Value)
		}
	}
}

// field returns the last part of a path, for messages.
func field(path string) string {
	if path == "" {
		return "a runbook"
	}
	path = path[strings.LastIndex(path, ".")+1:]
	if name, _, ok := strings.Cut(path, "["); ok {
		return "each of " + name
	}
	return path
}

// fieldOf returns the type of a field, or nil if there is no such field.
func fieldOf(t reflect.Type, name string) reflect.Type {
	for f := range t.Fields() {
		if tag, _, _ := strings.Cut(f.Tag.Get("json"), ","); tag == name {
			return f.Type
		}
	}
	return nil
}

// Nearest returns a hint " (did you mean X?)" for a mistyped name, or "".
func Nearest(typed string, names []string) string {
	near := suggest.Nearest(typed, names)
	if near == "" {
		return ""
	}
	return fmt.Sprintf(" (did you mean %s?)", near)
}

func parseDuration(text string) (Duration, error) {
	v, err := time.ParseDuration(text)
	if err != nil || v < 0 {
		return 0, fmt.Errorf("%q is not a duration: write 90s or 5m", text)
	}
	return Duration(v), nil
}
