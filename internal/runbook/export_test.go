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

// Parts is a text taken apart and put together again, with its expressions as they are.
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

// Form is what is wrong with the form of a file, without its expressions, which are CEL's.
func Form(text []byte) []Finding {
	l := &linter{file: "x", lines: map[string]int{}}
	l.decode(text)
	return l.findings
}

// ReadJournal reads a journal, and tells what effects of it ended.
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

// Behind are the shells whose scripts lint finds, and the programs behind which it does.
func Behind() []string { return slices.Concat(shells, slices.Sorted(maps.Keys(starters))) }
