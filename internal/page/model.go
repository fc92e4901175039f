package page

import "cmp"

// Page is one page, from top to bottom. Empty parts are omitted.
type Page struct {
	Kind    string // the kind of document: report of a node
	Subject string // its subject: worker-3
	Home    string // path of the parent page
	Verdict Verdict
	Facts   []Fact
	Links   []Cell
	Notes   []string
	Causes  []Cause
	Nodes   []Node // if there are several
	Parts   []Part
	Foot    string
}

// Verdict is the conclusion of the page.
type Verdict struct {
	Word   string // healthy, fault, ...
	Says   string // the conclusion in one line
	Counts []Count
}

// Count is a number of items of one kind.
type Count struct {
	N    int
	Word string // a status or a verdict, which sets the colour
}

// Fact is a named property of the run.
type Fact struct{ Name, Value string }

// Cause is an explanation of bad answers.
type Cause struct {
	Name       string // a few words
	ID         string // ID of the rule, with the cause's subject; "" = none
	Share      string // number of nodes that have it, if there are several
	Confidence string
	Word       string // a status, which sets the colour
	Says       string
	Facts      []Fact // shown before the fix
	Fix        Fix
	Evidence   []Seen
	Against    []Seen
	More       []Fact // more facts, below the evidence
}

// Fix describes how to repair the cause.
type Fix struct {
	Check   []Paste // commands that only read
	Says    string
	Touches string
	Blocks  []Block
}

// Block is a list of steps below one condition.
type Block struct {
	If    string // "" = no condition
	Steps []Paste
}

// Paste is a list of commands to copy together.
type Paste struct {
	Note     string // shown above the part; "" = no note
	Commands []string
}

// Seen is one observation.
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
	Says string `json:"s,omitempty"` // its explanation in one line
	Seen []Seen `json:"r,omitempty"` // its bad answers
}

// Part is a section of a page below the causes. Either one of the pointers or the lines are set.
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

// Table is a list of rows. Each row has a word before its cells, and this word sets the colour.
type Table struct {
	Head []string // headings of the cells; the word has no heading
	Rows []Row
}

// Row is a row of a Table.
type Row struct {
	Word  string
	Cells []Cell
	Lines []string // evidence, collapsed under the last cell
}

// Cell is a text, which may link to another page.
type Cell struct{ Text, Link string }

// Step is a step of a procedure with its outcome.
type Step struct {
	Number string
	Name   string
	Kind   string
	Word   string // a status or a verdict; "" = none
	Says   string
	Seen   []Seen
	Lines  []string // shown in a fixed-width font
}

// Texts turns texts into cells.
func Texts(texts ...string) []Cell {
	var out []Cell
	for _, t := range texts {
		out = append(out, Cell{Text: t})
	}
	return out
}

// classes maps words to classes of the style sheet.
var classes = map[string]string{
	"fail": "bad", "fault": "bad", "not ready": "bad", "worse": "bad",
	"unknown": "open", "incomplete": "open", "not asked": "open", "vanished": "open",
	"warn": "warn", "warnings": "warn", "lossy": "warn", "fact": "warn",
	"affected": "warn",
	"ok":       "good", "healthy": "good", "ready": "good", "better": "good",
}

// class returns the class for a word. It never returns a node's own text as a class.
func class(word string) string { return cmp.Or(classes[word], "quiet") }

// rank orders words by their importance to the reader.
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
