package report

import (
	"fmt"
	"io"
	"slices"
	"strings"
)

// A Format is an output format of a run.
type Format struct {
	Name string
	For  string // its purpose, in a few words
	// Expr is an example of the expression that must follow the name and '='. A format that does not take an expression
	// can be written to a file, FORMAT=FILE.
	Expr  string
	Lives bool // written as answers arrive; other formats are written with the verdict
	Many  bool // several reports can follow one another
	Bytes bool // binary, for programs: not cleaned for a terminal
	// Joined writes several reports as one document. It is nil if the format does not support that.
	Joined func(w io.Writer, all []Document) error
	// Sink returns the format's sink. It is nil in the list of a verb that writes the format itself.
	Sink func(w io.Writer, o Options) (Sink, error)
}

// Options configure a sink.
type Options struct {
	Colour bool   // for terminals
	Width  int    // of the terminal, in columns; 0 = not a terminal
	Expr   string // for a format with an expression
	Fleet  bool   // the events are about several nodes
	// Family returns a check's family, which is the group in a wide table; nil = families are unknown.
	Family func(check string) string
}

// Formats lists every format. Help, completion and messages derive from it.
func Formats() []Format {
	return []Format{
		{Name: "table", For: "for people: the cause, its evidence and its fix, on one screen", Many: true, Sink: newScreen(false)},
		{Name: "wide", For: "like table, with all causes and all answers, by family of checks, bad results first", Many: true,
			Sink: newScreen(true)},
		{Name: "markdown", For: "to paste into a ticket or a chat", Many: true, Sink: whole(writeMarkdown, writeFleetMarkdown)},
		{Name: "name", For: "cause/ID and check/ID of bad results, one per line", Many: true, Sink: whole(writeNames, writeFleetNames)},
		{Name: "json", For: "the whole report as one document", Sink: tree(writeJSON)},
		{Name: "yaml", For: "the same as json", Sink: tree(WriteYAML)},
		{Name: "ndjson", For: "every event as it happens, one per line; the best format to save", Lives: true, Sink: newStream},
		{Name: "junit", For: "for CI: a case for each check and target", Sink: whole(writeJUnit, nil), Joined: writeJUnits},
		{Name: "html", For: "one self-contained page to send or to keep: the verdict first, evidence folded", Sink: whole(writeHTML, writeFleetHTML)},
		{Name: "jsonpath", For: "fields of the report, with kubectl's JSONPath syntax", Expr: "'{.verdict}'", Sink: newJSONPath},
		{Name: "go-template", For: "fields of the report, with a Go template", Expr: "'{{.verdict}}'", Sink: newTemplate},
	}
}

// Find returns the format of a list with this name.
func Find(formats []Format, name string) (Format, error) {
	i := slices.IndexFunc(formats, func(f Format) bool { return f.Name == name })
	if i < 0 {
		return Format{}, fmt.Errorf("unknown output format %q: use one of %s", name, strings.Join(Spelled(formats), ", "))
	}
	return formats[i], nil
}

// Spelled lists formats as users type them. Formats that take an expression end with '='.
func Spelled(formats []Format) []string {
	var out []string
	for _, f := range formats {
		name := f.Name
		if f.Expr != "" {
			name += "="
		}
		out = append(out, name)
	}
	return out
}

// New returns the sink, writing to w, of a format that does not take an expression. Colour is for
// terminals.
func New(format string, w io.Writer, colour bool) (Sink, error) {
	f, err := Find(Formats(), format)
	if err != nil {
		return nil, err
	}
	return f.Sink(w, Options{Colour: colour})
}
