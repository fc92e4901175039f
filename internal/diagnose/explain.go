package diagnose

import (
	"cmp"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"github.com/calico-probe/calico-probe/probe"
)

// Diagnosis is the conclusion of the rules about a run.
type Diagnosis struct {
	Causes      []probe.Cause // the most likely cause first
	Unexplained []string      // failed checks of the node that no cause explains
	Failed      []string      // one sentence for each rule that panicked: its causes are unknown

	proven   bool // a cause has high confidence, and its rule does not need further checks
	untraced bool // a filter drops packets according to a cause, and no check looked for the filter
	kept     []candidate
	wants    []Cover // checks that the causes still need, likeliest first, with the other node
}

// Open returns the checks that the causes still need, the most likely cause first. Each has the other node to check; ""
// = any node. It returns nil if a cause is proven and every failed check is explained.
func (d Diagnosis) Open() []Cover {
	if d.Settled() {
		return nil
	}
	return d.wants
}

// Settled reports whether a cause is proven and every failed check is explained.
func (d Diagnosis) Settled() bool { return d.proven && len(d.Unexplained) == 0 }

// Untraced reports whether, according to a cause, a filter drops packets and no check has looked for that filter on
// this node.
func (d Diagnosis) Untraced() bool { return d.untraced }

// surest sorts candidates by confidence. Current faults precede future faults. Causes that prevented the probe from
// running on the node come last: a missing permission never outranks a clue about the node itself.
func surest(a, b candidate) int {
	return cmp.Or(Last(a.rule.Layer == LayerPlacement, b.rule.Layer == LayerPlacement), Last(a.rule.Later, b.rule.Later),
		cmp.Compare(rank(b.cause.Confidence), rank(a.cause.Confidence)), cmp.Compare(b.score, a.score))
}

// Last sorts marked items after unmarked items.
func Last(a, b bool) int {
	switch {
	case a == b:
		return 0
	case a:
		return 1
	}
	return -1
}

// Explain applies every rule of a suite. If two causes have equal confidence, the cause that explains more bad results
// is more likely. Both may be true: a busy node may also lack a route.
func Explain(f Findings, suite Suite) Diagnosis {
	f = f.Indexed()
	f.suite = suite
	all, failed := matched(f, false)
	f.there = causesThere(f, all)
	residual, more := matched(unproven(f, all), true)
	all, failed = append(lowerOpen(f, all, residual), residual...), append(failed, more...)
	slices.SortStableFunc(all, surest)
	kept := withOneFix(explainedAway(f, all))
	for i := range kept {
		kept[i].covered = covers(f, kept[i])
	}
	slices.SortStableFunc(kept, func(a, b candidate) int {
		return cmp.Or(surest(a, b), cmp.Compare(len(b.covered), len(a.covered)), Last(a.rule.Symptom, b.rule.Symptom),
			cmp.Compare(a.rule.Layer, b.rule.Layer))
	})
	kept = placeResidual(kept)
	d := Diagnosis{Failed: failed, kept: kept}
	explained := map[int]bool{}
	for i := range kept {
		kept[i].cause.Explains = append(follows(f, kept[i]), kept[i].cause.Explains...)
		for _, at := range kept[i].covered {
			explained[at] = true
		}
		d.Causes = append(d.Causes, kept[i].cause)
		d.proven = d.proven || kept[i].cause.Confidence == probe.High && !kept[i].rule.Open
		tracer := kept[i].rule.TracedBy
		d.untraced = d.untraced || tracer != "" && len(f.Of(tracer)) == 0
		for _, id := range kept[i].rule.Wants {
			if len(f.Of(id)) == 0 {
				d.wants = append(d.wants, Cover{Check: id, About: kept[i].found.Peer})
			}
		}
	}
	for i, r := range f.All {
		if r.Node == f.Node && IsBad(r.Status) && !explained[i] && !slices.Contains(d.Unexplained, r.Check) {
			d.Unexplained = append(d.Unexplained, r.Check)
		}
	}
	return d
}

// Ready prepares findings for a suite's rules: it indexes the findings, and adds the causes on other nodes.
func Ready(f Findings, suite Suite) Findings {
	f = f.Indexed()
	f.suite = suite
	all, _ := matched(f, false)
	f.there = causesThere(f, all)
	return f
}

// matched returns the cases of the residual rules or of the regular rules, with the highest confidence first. A rule
// that panics loses only its own cases.
func matched(f Findings, residual bool) (all []candidate, failed []string) {
	for _, rule := range f.suite.Rules {
		if rule.Residual != residual {
			continue
		}
		var of []candidate
		crash := probe.Recovered(func() error {
			of = rule.weighed(f)
			return nil
		})
		if crash != nil {
			failed = append(failed, fmt.Sprintf("rule %s failed: it %v", rule.ID, crash))
		}
		all = append(all, of...)
	}
	slices.SortStableFunc(all, surest)
	return all[:min(len(all), MostCauses)], failed
}

// weighed returns a rule's cases with the highest confidence.
func (r *Rule) weighed(f Findings) []candidate {
	var of []candidate
	for _, c := range r.Match(f) {
		if got, ok := weigh(f, r, c); ok {
			of = append(of, got)
		}
	}
	return surestCases(of)
}

// Limits are needed because every pair of causes is compared, and a node's answers decide how many cases there are.
const (
	maxCases   = 20  // of one rule
	MostCauses = 100 // of all rules
)

// surestCases returns a rule's cases with the highest confidence. If there are too many, the last case represents the
// rest: it states their number, and explains the results that they explain.
func surestCases(of []candidate) []candidate {
	if len(of) <= maxCases {
		return of
	}
	slices.SortStableFunc(of, surest)
	kept, rest := of[:maxCases:maxCases], of[maxCases:]
	last := &kept[maxCases-1]
	last.cause.Says += fmt.Sprintf("; the same holds for %d more that are not listed", len(rest))
	for _, c := range rest {
		last.also = append(last.also, c.found.For...)
		last.more = append(last.more, c.found.Covers...)
	}
	return kept
}

// weigh turns a case into a cause, unless the evidence against it outweighs the evidence for it.
func weigh(f Findings, rule *Rule, c Case) (candidate, bool) {
	score := 0
	cause := probe.Cause{ID: rule.ID, About: c.About, Title: rule.Title, Says: c.Says, Fault: c.Fault,
		Source: rule.Source, Advice: rule.Advice, Runbooks: rule.Runbooks}
	c.Against = append(slices.Clone(c.Against), contradicted(f, rule, c)...)
	c.For = slices.Clone(c.For)
	// People read only the first few.
	slices.SortStableFunc(c.For, func(a, b Clue) int { return cmp.Compare(b.Weight, a.Weight) })
	for _, clue := range c.For {
		score += clue.Weight
		cause.For = withClues(cause.For, shown(f, clue.Finding))
	}
	for _, clue := range c.Against {
		score -= clue.Weight
		if one := shown(f, clue.Finding); !slices.Contains(cause.For, one) { // the sentence already shows this evidence
			cause.Against = withClues(cause.Against, one)
		}
	}
	if score <= 0 || len(c.For) == 0 {
		return candidate{}, false
	}
	cause.Missing = missing(f, rule.Wants)
	sure := min(score, Proof)
	if len(cause.Missing) > 0 {
		sure = max(sure-1, Hint)
	}
	if rule.Symptom || rule.Source != "" {
		sure = min(sure, Strong)
	}
	if rule.Source != "" {
		cause.Title = "operator's cause: " + cause.Title
	}
	if only := soleWitness(f, c.For, c.Against); only != "" {
		sure = min(sure, Strong)
		cause.Says += fmt.Sprintf("; seen only from %s", only)
	}
	cause.Confidence = map[int]probe.Confidence{Proof: probe.High, Strong: probe.Medium, Hint: probe.Low}[sure]
	for _, id := range rule.RuledOut {
		if f.Fine(id) && !slices.ContainsFunc(c.For, func(clue Clue) bool { return clue.Check == id }) {
			cause.RuledOut = append(cause.RuledOut, id)
		}
	}
	particulars(f, &cause, rule.FixOf(c), c.Args)
	c.Covers = slices.Clone(c.Covers) // more are appended below, and rules share the slice
	return candidate{rule: rule, found: c, cause: cause, score: score}, true
}

// withClues adds clues without duplicates. A clue that counts twice is shown once.
func withClues(of []probe.Clue, more ...probe.Clue) []probe.Clue {
	for _, clue := range more {
		if !slices.Contains(of, clue) {
			of = append(of, clue)
		}
	}
	return of
}

func shown(f Findings, r Finding) probe.Clue {
	node := r.Node
	if node == f.Node {
		node = ""
	}
	return probe.Clue{Check: r.Check, Target: strings.TrimSpace(r.Target + " " + from(r)), Node: node, Status: r.Status,
		Saw: r.Saw}
}

func from(r Finding) string {
	if r.From == "" {
		return ""
	}
	return "from " + r.From
}

// missing names the wanted checks that have no answer, and the reasons.
func missing(f Findings, wants []string) []string {
	var out []string
	for _, id := range wants {
		of := f.Of(id)
		switch {
		case f.Answered(id):
		case len(of) == 0:
			out = append(out, id+" did not run")
		default:
			worst := of[0]
			if i := slices.IndexFunc(of, func(r Finding) bool { return r.Status == probe.Unknown }); i >= 0 {
				worst = of[i]
			}
			out = append(out, id+": "+worst.Saw)
		}
	}
	return out
}

func rank(c probe.Confidence) int {
	return map[probe.Confidence]int{probe.High: 3, probe.Medium: 2, probe.Low: 1}[c]
}

// explainedAway removes causes that follow from another cause with at least the same confidence, and lists them in that
// cause. A cause follows from another if the other rule's Explains contains it, or if its only evidence is the other
// cause's consequences.
func explainedAway(f Findings, all []candidate) []candidate {
	by := map[int]int{} // maps a cause to the cause that explains it
	within := consequences(f, all)
	named := func(i, j int) bool {
		a, b := all[i].found, all[j].found
		apart := a.Peer != "" && b.Peer != "" && a.Peer != b.Peer || a.Family != 0 && b.Family != 0 && a.Family != b.Family
		return !apart && slices.Contains(all[i].rule.Explains, all[j].rule.ID)
	}
	// If two causes have equal confidence and each is based on the other's consequences, they are rivals, and both are
	// reported.
	follows := func(i, j int) bool {
		surer := rank(all[i].cause.Confidence) > rank(all[j].cause.Confidence)
		return !all[j].rule.Apart && all[i].rule.MayExplain(all[j].rule) && within(j, i) && (surer || !within(i, j))
	}
	for _, explains := range []func(i, j int) bool{named, follows} {
		for i := range all {
			for j := range all {
				_, gone := by[j]
				if i != j && !gone && root(by, i) != j && rank(all[i].cause.Confidence) >= rank(all[j].cause.Confidence) &&
					explains(i, j) {
					by[j] = i
				}
			}
		}
	}
	var kept []candidate
	for i := range all {
		if _, gone := by[i]; gone {
			continue
		}
		for j := range all {
			if i == j || root(by, j) != i {
				continue
			}
			follow := probe.Follows{Cause: strings.TrimSpace(all[j].rule.ID + " " + all[j].cause.About)}
			all[i].cause.Explains = append(all[i].cause.Explains, follow)
			// The cause also explains the results that its consequence explains.
			all[i].found.Covers = append(all[i].found.Covers, all[j].found.Covers...)
			all[i].also = slices.Concat(all[i].also, all[j].found.For, all[j].also)
			all[i].more = append(all[i].more, all[j].more...)
		}
		kept = append(kept, all[i])
	}
	return kept
}

// withOneFix merges a rule's causes that have the same peer, confidence and fix, and differ only in address family or
// target. It lists the targets. If there are many, it counts them.
func withOneFix(all []candidate) []candidate {
	var out []candidate
	others := map[int][]candidate{} // the key is the index of the first one in out
	for _, c := range all {
		i := slices.IndexFunc(out, func(o candidate) bool {
			return o.rule == c.rule && o.found.Peer == c.found.Peer && o.cause.About != c.cause.About &&
				o.cause.Confidence == c.cause.Confidence && reflect.DeepEqual(o.cause.Fix, c.cause.Fix)
		})
		if i < 0 {
			out = append(out, c)
			continue
		}
		others[i] = append(others[i], c)
		into := &out[i]
		into.also, into.more = slices.Concat(into.also, c.also), slices.Concat(into.more, c.more)
		into.found.For, into.found.Covers = slices.Concat(into.found.For, c.found.For), slices.Concat(into.found.Covers,
			c.found.Covers)
		into.cause.For, into.cause.Against = withClues(into.cause.For, c.cause.For...), withClues(into.cause.Against,
			c.cause.Against...)
		into.cause.Explains = slices.Concat(into.cause.Explains, c.cause.Explains)
	}
	for i, of := range others {
		out[i].cause.Says, out[i].cause.About = together(out[i].cause, of)
	}
	return out
}

// shownTargets is the maximum number of targets that one cause names.
const shownTargets = 3

// together returns a merged cause's sentence and subject. If a cause differs in more than the target, its full sentence
// is kept.
func together(first probe.Cause, others []candidate) (says, about string) {
	says, about = first.Says, first.About
	var same []string
	apart := 0
	for _, c := range others {
		if own := strings.ReplaceAll(c.cause.Says, c.cause.About, first.About); own == first.Says {
			same = append(same, c.cause.About)
		} else if apart++; apart <= shownTargets {
			says += "; " + c.cause.Says
		}
	}
	switch n := len(same) - shownTargets; {
	case n > 0:
		says += fmt.Sprintf("; the same holds for %d more targets: %s and %d others", len(same),
			strings.Join(same[:shownTargets], ", "), n)
	case len(same) > 0:
		says += "; the same holds for " + strings.Join(same, ", ")
	}
	if len(others) == 1 {
		return says, about + " and " + others[0].cause.About
	}
	return says, fmt.Sprintf("%s and %d more", about, len(others))
}

// root returns the cause at the end of a chain of causes.
func root(by map[int]int, at int) int {
	for range len(by) { // at most as many steps as there are causes that follow
		next, follows := by[at]
		if !follows {
			break
		}
		at = next
	}
	return at
}
