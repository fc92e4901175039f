package main

import (
	"os"
	"testing"
)

// TestMutantsApply wants each mutant's text in its file, once: the product changes, and mutants with it.
func TestMutantsApply(t *testing.T) {
	t.Chdir("../..")
	all, err := parse(archive)
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range all {
		source, err := os.ReadFile(m.file)
		if err == nil {
			_, err = m.apply(string(source))
		}
		if err != nil {
			t.Errorf("%s: %v", m.name, err)
		}
	}
}
