package page

import "cmp"

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
