package main_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/calico-probe/calico-probe/probe/must"
)

// The maximum size of the project and of a package.
const (
	maxTopFolders = 10
	maxRoomLines  = 3500 // without tests
	maxRoomFiles  = 45
)

// wholeHalls are packages above that size, with their current number of lines, rounded up to 50. Lower a number when
// its package shrinks, and never raise it.
var wholeHalls = map[string]int{
	"internal/cluster": 7000,
	"cmd/calico-probe": 7000,
	"internal/runbook": 5500,
	"internal/report":  5450,
	"internal/session": 4050,
	"injector":         5000,
	"probe":            4500,
	"probe/kernel":     4000,
	"probe/tools/do":   3950,
	"test/sandbox":     4450,
}

// TestHouse checks the layout: few folders at the top, packages of limited size, and subjects that are independent of
// each other.
func TestHouse(t *testing.T) {
	const subjects = "internal/subject/"
	top := must.Get(os.ReadDir("../.."))(t)
	var folders []string
	for _, d := range top {
		if d.IsDir() && !strings.HasPrefix(d.Name(), ".") && d.Name() != "bin" {
			folders = append(folders, d.Name())
		}
	}
	if len(folders) > maxTopFolders {
		t.Errorf("%d folders at the top, at most %d: %v", len(folders), maxTopFolders, folders)
	}
	lines, files := map[string]int{}, map[string]int{}
	for _, s := range sources(t, filepath.Join("..", "..")) {
		for _, spec := range s.file.Imports {
			_, other, is := strings.Cut(strings.Trim(spec.Path.Value, `"`), "/calico-probe/"+subjects)
			room, inside := strings.CutPrefix(s.folder(), subjects)
			if is && inside && !strings.HasSuffix(s.path, "_test.go") && !mayKnow(room, other) {
				t.Errorf("%s: the subject %s imports another, %s", s.path, room, other)
			}
		}
		if !strings.HasSuffix(s.path, "_test.go") {
			lines[s.folder()] += len(s.lines)
			files[s.folder()]++
		}
	}
	for room, n := range lines {
		large := n > maxRoomLines || files[room] > maxRoomFiles
		most, hall := wholeHalls[room]
		switch {
		case large && !hall:
			t.Errorf("%s has %d lines in %d files, at most %d in %d: divide it", room, n, files[room], maxRoomLines, maxRoomFiles)
		case !large && hall:
			t.Errorf("%s is a room now: take it off the list of halls", room)
		case hall && n > most:
			t.Errorf("%s has grown to %d lines, at most %d: divide it", room, n, most)
		}
	}
}

// mayKnow reports whether a package of one subject may import one of another, each named by its path below the folder
// of the subjects. Causes compare the results of several subjects, so they import all facts. A subject's causes and its
// check functions are private to it.
func mayKnow(room, other string) bool {
	subject, part, _ := strings.Cut(room, "/")
	of, otherPart, _ := strings.Cut(other, "/")
	reads := part == "cause" || subject == "evidence" || part == "diff" && of != "evidence"
	return subject == "suite" || subject == of || reads && (otherPart == "" || otherPart == "diff")
}
