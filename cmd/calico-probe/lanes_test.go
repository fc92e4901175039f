package main_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/calico-probe/calico-probe/probe/must"
)

// TestLanes requires each test in the Makefile to exist: a renamed test would silently leave its lane.
func TestLanes(t *testing.T) {
	makefile := must.Get(os.ReadFile("../../Makefile"))(t)
	var names []string
	for _, s := range sources(t, filepath.Join("..", "..")) {
		for _, m := range regexp.MustCompile(`(?m)^func Test(\w+)\(t \*testing\.T\)`).FindAllStringSubmatch(s.text, -1) {
			names = append(names, m[1])
		}
	}
	all := " " + strings.Join(names, " ") + " "
	patterns := regexp.MustCompile(`\^Test(?:\(([\w|]+)\)\$|(\w+)\$)`).FindAllStringSubmatch(strings.ReplaceAll(string(makefile), "$$", "$"), -1)
	if len(patterns) < 3 {
		t.Fatalf("the Makefile has %d patterns of tests", len(patterns))
	}
	for _, p := range patterns {
		for name := range strings.SplitSeq(p[1]+p[2], "|") {
			if !strings.Contains(all, " "+name+" ") {
				t.Errorf("no Test%s, for the pattern %s", name, p[0])
			}
		}
	}
}
