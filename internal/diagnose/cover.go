package diagnose

import (
	"slices"
	"strings"

	"github.com/calico-probe/calico-probe/probe"
)

// candidate is a case that may become a cause.
type candidate struct {
	rule  *Rule
	found Case
	cause probe.Cause
	score int
	also  []Clue  // the evidence for its consequences, and for the cases that it represents
	more  []Cover // the results that the represented cases explain
	// covered has the indices of the bad results that the candidate explains.
	covered []int
}

// cover indexes a list of covers by check, for fast lookups.
type cover map[string]*covered

// covered is the covered part of one check: all targets, or the targets with certain words.
type covered struct {
	all    bool
	abouts map[string]bool
	widths []int // their numbers of words
}

func newCover(f Findings, covers ...[]Cover) cover {
	out := cover{}
	for _, list := range covers {
		for _, c := range list {
			if implied, has := f.suite.Implies[c.Check]; has && c.About == "" {
				out.add(implied)
			}
			out.add(c)
		}
	}
	return out
}

func (c cover) add(one Cover) {
	of := c[one.Check]
	if of == nil {
		of = &covered{abouts: map[string]bool{}}
		c[one.Check] = of
	}
	about := strings.TrimSpace(one.About)
	of.all = of.all || one.About == ""
	if of.abouts[about] {
		return
	}
	of.abouts[about] = true
	if width := 1 + strings.Count(about, " "); !slices.Contains(of.widths, width) {
		of.widths = append(of.widths, width)
	}
}

func (c cover) has(check, target string) bool {
	of := c[check]
	if of == nil || of.all {
		return of != nil
	}
	words := strings.Split(target, " ")
	for _, width := range of.widths {
		for at := 0; at+width <= len(words); at++ {
			if of.abouts[strings.Join(words[at:at+width], " ")] {
				return true
			}
		}
	}
	return false
}

// consequences returns a function that reports whether all of one candidate's bad evidence follows from another
// candidate. That function is called for each pair, so consequences prepares the data in advance.
func consequences(f Findings, all []candidate) (within func(c, of int) bool) {
	type about struct{ check, target string }
	ids := map[about]int{}
	var list []about
	evidence := make([][]int, len(all))
	for i, c := range all {
		mine := map[int]bool{}
		for _, clue := range c.found.For {
			if clue.Context || clue.Node != f.Node || !IsBad(clue.Status) {
				continue
			}
			key := about{clue.Check, clue.Target}
			id, known := ids[key]
			if !known {
				id = len(list)
				ids[key] = id
				list = append(list, key)
			}
			if !mine[id] {
				mine[id] = true
				evidence[i] = append(evidence[i], id)
			}
		}
	}
	follows := make([][]bool, len(all))
	for i, c := range all {
		has := newCover(f, c.found.Covers)
		follows[i] = make([]bool, len(list))
		for id, key := range list {
			follows[i][id] = has.has(key.check, key.target)
		}
	}
	return func(c, of int) bool {
		outside := func(id int) bool { return !follows[of][id] }
		return len(evidence[c]) > 0 && !slices.ContainsFunc(evidence[c], outside)
	}
}

// covers returns the indices of the bad results that a cause explains, including the cause's evidence.
func covers(f Findings, c candidate) []int {
	isEvidence, isCovered := questionsIn(c.found.For, c.also), newCover(f, c.found.Covers, c.more)
	var out []int
	for i, r := range f.All {
		if r.Node == f.Node && IsBad(r.Status) && (isEvidence[QuestionOf(r)] || isCovered.has(r.Check, r.Target)) {
			out = append(out, i)
		}
	}
	return out
}

// follows counts the results that a cause explains beyond its own evidence.
func follows(f Findings, c candidate) []probe.Follows {
	var out []probe.Follows
	isEvidence, at := questionsIn(c.found.For), map[string]int{}
	for _, index := range c.covered {
		r := f.All[index]
		if isEvidence[QuestionOf(r)] {
			continue
		}
		i, have := at[r.Check]
		if !have {
			at[r.Check] = len(out)
			out = append(out, probe.Follows{Check: r.Check, Count: 1})
			continue
		}
		out[i].Count++
	}
	return out
}

// question identifies a check, its target and the place where it ran.
type question struct{ node, way, check, target, from string }

func QuestionOf(r Finding) question { return question{r.Node, r.Method, r.Check, r.Target, r.From} }

func questionsIn(clues ...[]Clue) map[question]bool {
	out := map[question]bool{}
	for _, list := range clues {
		for _, clue := range list {
			out[QuestionOf(clue.Finding)] = true
		}
	}
	return out
}
