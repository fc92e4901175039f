package main

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"regexp"
	"slices"
	"strings"
)

// drawn are the kinds of text of which sentences are drawn for a reader.
var drawn = []string{"help", "causes", "checks", "docs", "comments", "messages"}

// draw prints n random sentences of each kind, with their places. The same seed draws the same sentences.
func draw(texts []text, n int, seed uint64) {
	random := rand.New(rand.NewPCG(seed, seed))
	all := map[string][]string{}
	for _, t := range texts {
		kind := t.kind
		switch {
		case kind == "messages" && strings.HasPrefix(t.path, "cmd/calico-probe/"):
			kind = "help"
		case kind == "causes" && strings.Contains(t.path, "/checks/"):
			kind = "checks"
		}
		all[kind] = append(all[kind], sentences(t)...)
	}
	for _, kind := range drawn {
		of := all[kind]
		random.Shuffle(len(of), func(i, j int) { of[i], of[j] = of[j], of[i] })
		fmt.Printf("\n## %s, %d of %d\n", kind, min(n, len(of)), len(of))
		for i, s := range of[:min(n, len(of))] {
			fmt.Printf("%d. %s\n", i+1, s)
		}
	}
}

// ends matches the end of a sentence.
var ends = regexp.MustCompile(`[.:!?]\s+`)

// code matches a line that is no prose: of a table, a heading, an example or a rule.
var code = regexp.MustCompile("^(\\||#|```|    |\\t|$)")

// sentences are those of a text of four words or more, each with the line on which its paragraph starts. Blocks of
// code and tables are left out.
func sentences(t text) []string {
	var out []string
	paragraph, from, last, fenced := "", 0, 0, false
	flush := func() {
		for _, s := range ends.Split(paragraph+" ", -1) {
			if s = strings.Join(strings.Fields(s), " "); len(strings.Fields(s)) > 3 {
				out = append(out, fmt.Sprintf("%s  (%s:%d)", s, t.path, from))
			}
		}
		paragraph = ""
	}
	for _, n := range slices.Sorted(maps.Keys(t.lines)) {
		line := t.lines[n]
		if n != last+1 || code.MatchString(line) || strings.HasPrefix(line, "- ") {
			flush()
		}
		last = n
		if strings.HasPrefix(line, "```") {
			fenced = !fenced
		}
		if fenced || code.MatchString(line) {
			continue
		}
		if paragraph == "" {
			from = n
		}
		paragraph += line + "\n"
	}
	flush()
	return out
}
