package runbook

import (
	"bytes"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"
	"time"
)

// Parts splits a text and joins it again, with unchanged expressions.
func Parts(text string) (string, error) {
	parts, err := pieces(text)
	var b strings.Builder
	for _, p := range parts {
		b.WriteString(strings.ReplaceAll(p.words, "${", "$${"))
		if p.words == "" {
			b.WriteString("${" + p.expression + "}")
		}
	}
	return b.String(), err
}

// Form returns the findings about a file's form, without its expressions.
func Form(text []byte) []Finding {
	l := &linter{file: "x", lines: map[string]int{}}
	l.decode(text)
	return l.findings
}

// ReadJournal reads a journal, and returns which effects ended.
func ReadJournal(text []byte) (j *Journal, ended int, err error) {
	j, _, err = readJournal(bytes.NewReader(text))
	if err != nil {
		return nil, 0, err
	}
	return j, len(j.done), nil
}

func TestMain(m *testing.M) {
	minEvery = time.Millisecond // of a world without nodes
	os.Exit(m.Run())
}

// Behind returns the shells whose scripts lint finds, and the programs that may start them.
func Behind() []string { return slices.Concat(shells, slices.Sorted(maps.Keys(starters))) }
