// Package page writes what was found as one page of HTML that needs nothing but itself: style and script are inside,
// a browser is told to load nothing, and without script all of it can be read but for the single nodes and paths of
// thousands.
//
// It knows words, not what they are about: report, mesh, runbook and alerts make a Page of what they have. All that a
// node said is text: it is cleaned, escaped as html/template does it, and reaches the script as JSON, of which the
// script makes text again.
//
// The escaping is DataDog's copy of html/template, whose templates call no methods. Where one may, the linker can leave
// no method out of the program, which makes it a third larger. TestHostile holds the copy to the original.
package page

import (
	"bytes"
	"cmp"
	"embed"
	"fmt"
	"io"
	"reflect"

	template "github.com/DataDog/datadog-agent/pkg/template/html"

	"github.com/calico-probe/calico-probe/probe"
)

// Page is one page, from top to bottom. What is empty is left out.
type Page struct {
	Kind    string // what it is: report of a node
	Subject string // what it is about: worker-3
	Home    string // the page above it, by its path
	Verdict Verdict
	Facts   []Fact
	Links   []Cell
	Notes   []string
	Causes  []Cause
	Nodes   []Node // where there are several
	Parts   []Part
	Foot    string
}

// Verdict is what it came to.
type Verdict struct {
	Word   string // healthy, fault, ...
	Says   string // what the reader came for, in a line
	Counts []Count
}

// Count is how many there are of a kind.
type Count struct {
	N    int
	Word string // a status or a verdict, by which it is coloured
}

// Fact is something about the run, with its name.
type Fact struct{ Name, Value string }

// Cause is what explains bad answers.
type Cause struct {
	Name       string // a few words
	ID         string // of the rule, and what it is about; "" = it has none
	Share      string // how many nodes have it, where there are several
	Confidence string
	Word       string // a status, by which it is coloured
	Says       string
	Facts      []Fact // about it, before the fix
	Fix        Fix
	Evidence   []Seen
	Against    []Seen
	More       []Fact // what else is known, below the evidence
}

// Fix is what to do about it.
type Fix struct {
	Check   []Paste // commands that only read
	Says    string
	Touches string
	Blocks  []Block
}

// Block is steps under one condition.
type Block struct {
	If    string // "" = no condition
	Steps []Paste
}

// Paste is commands that are copied at once.
type Paste struct {
	Note     string // to be read before them, "" = none
	Commands []string
}

// Seen is one thing that was seen.
type Seen struct {
	Word string `json:"w"` // a status
	What string `json:"c"` // the check, with its target
	Saw  string `json:"s"`
}

// Node is one of several nodes.
type Node struct {
	Name string `json:"n"`
	Zone string `json:"z,omitempty"`
	Word string `json:"w"`           // a verdict
	Says string `json:"s,omitempty"` // what explains it, in a line
	Seen []Seen `json:"r,omitempty"` // what is bad there
}

// Part is one part of a page below the causes: one of its pointers or its lines are set.
type Part struct {
	Title    string
	Note     string
	Folded   bool
	Table    *Table
	Lines    []string
	Steps    []Step
	Timeline *Timeline
	Matrix   *Matrix
	Topology *Topology
}

// Table is rows, each with a word by which it is coloured before its cells.
type Table struct {
	Head []string // of the cells; the word has none
	Rows []Row
}

// Row is one of a table.
type Row struct {
	Word  string
	Cells []Cell
	Lines []string // evidence, folded under the last cell
}

// Cell is a text, which may lead to another page.
type Cell struct{ Text, Link string }

// Step is one of a procedure: what was done, and what came of it.
type Step struct {
	Number string
	Name   string
	Kind   string
	Word   string // a status or a verdict, "" = it has none
	Says   string
	Seen   []Seen
	Lines  []string // in a typewriter's letters
}

// Texts makes cells of texts.
func Texts(texts ...string) []Cell {
	var out []Cell
	for _, t := range texts {
		out = append(out, Cell{Text: t})
	}
	return out
}

//go:embed *.html
var pages embed.FS

// functions are what the templates call: they know no methods.
var functions = template.FuncMap{
	"class": class, "short": short, "add": func(a, b int) int { return a + b }, "sub": func(a, b int) int { return a - b },
	"join":   joined,
	"style":  func() template.CSS { return template.CSS(style) },
	"script": func() template.JS { return template.JS(script) }, "policy": func() string { return Policy },

	"colour": func(of interface{ colour() string }) string { return of.colour() },
	"says":   func(of interface{ says() string }) string { return of.says() },

	"drawing": (*Topology).Drawn, "label": (*vertex).label, "radius": (*vertex).radius, "stroke": (*edge).stroke,
	"left": (*Timeline).left, "width": (*Timeline).width, "took": Bar.took,
	"grid": func(m *Matrix) grid { return m.grid },
}

var templates = template.Must(template.New("page.html").Funcs(functions).ParseFS(pages, "*.html"))

// short tells a text for which a column is never too narrow.
func short(text string) bool { return len(text) <= 24 }

// drawn is a Page with what is made of it.
type drawn struct {
	Page
	List   *list // of the nodes
	Packed *packed
}

// Write writes a page.
func Write(w io.Writer, p Page) error {
	d, err := draw(cleaned(reflect.ValueOf(p)).Interface().(Page))
	if err != nil {
		return err
	}
	var b bytes.Buffer
	if err := templates.Execute(&b, d); err != nil {
		return fmt.Errorf("making a page: %w", err)
	}
	_, err = b.WriteTo(w)
	return err
}

func draw(p Page) (drawn, error) {
	packed, err := pack(p)
	return drawn{Page: p, List: listed(p.Nodes), Packed: packed}, err
}

// cleaned is a value of which every text is fit to be shown.
func cleaned(v reflect.Value) reflect.Value {
	out := reflect.New(v.Type()).Elem()
	out.Set(v)
	switch v.Kind() {
	case reflect.String:
		out.SetString(probe.Line(v.String())) // a command is one line, whatever is in it
	case reflect.Struct:
		for i := range v.NumField() {
			if v.Type().Field(i).IsExported() {
				out.Field(i).Set(cleaned(v.Field(i)))
			}
		}
	case reflect.Slice:
		if v.Len() == 0 {
			break
		}
		out.Set(reflect.MakeSlice(v.Type(), v.Len(), v.Len()))
		for i := range v.Len() {
			out.Index(i).Set(cleaned(v.Index(i)))
		}
	case reflect.Pointer:
		if !v.IsNil() {
			out.Set(reflect.New(v.Type().Elem()))
			out.Elem().Set(cleaned(v.Elem()))
		}
	}
	return out
}

// classes are those of the style sheet, by word.
var classes = map[string]string{
	"fail": "bad", "fault": "bad", "not ready": "bad", "worse": "bad",
	"unknown": "open", "incomplete": "open", "not asked": "open", "vanished": "open",
	"warn": "warn", "warnings": "warn", "lossy": "warn", "fact": "warn",
	"affected": "warn",
	"ok":       "good", "healthy": "good", "ready": "good", "better": "good",
}

// class is the class for a word. There are no others: what a node said is no class.
func class(word string) string { return cmp.Or(classes[word], "quiet") }

// rank orders words, what is to be read first before the others.
func rank(word string) int {
	switch class(word) {
	case "bad":
		return 0
	case "open":
		return 1
	case "warn":
		return 2
	case "good":
		return 4
	}
	return 3
}
