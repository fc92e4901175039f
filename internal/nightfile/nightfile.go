// Package nightfile finds the recorded nights: runs on broken and healthy nodes, each with its expected causes. A night
// is stored next to its subject's causes. Other packages' tests also read it.
package nightfile

import (
	"path/filepath"
	"runtime"
	"slices"
	"strings"
)

// All returns the paths of all nights, sorted by name.
func All() []string { return find("*") }

// Path returns the path of the night with this name, or "" if there is none.
func Path(name string) string {
	found := find(name)
	if len(found) != 1 {
		return ""
	}
	return found[0]
}

func find(name string) []string {
	_, here, _, _ := runtime.Caller(0)
	found, err := filepath.Glob(filepath.Join(filepath.Dir(here), "../subject/*/cause/testdata", name+".txtar"))
	if err != nil { // the pattern is in the code, so it is valid
		panic(err)
	}
	slices.SortFunc(found, func(a, b string) int { return strings.Compare(filepath.Base(a), filepath.Base(b)) })
	return found
}
