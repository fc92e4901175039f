package diagnose

import (
	"slices"

	"github.com/calico-probe/calico-probe/probe"
)

// unproven returns the findings without the bad results that a proven cause explains.
func unproven(f Findings, all []candidate) Findings {
	out := Findings{Node: f.Node, suite: f.suite, there: f.there, isThere: f.isThere}
	explained := map[int]bool{}
	for _, c := range explainedAway(f, slices.Clone(all)) {
		if c.cause.Confidence != probe.High || c.rule.Later || c.rule.Open {
			continue
		}
		for _, at := range covers(f, c) {
			explained[at] = true
		}
	}
	for i, r := range f.All {
		if !explained[i] {
			out.All = append(out.All, r)
		}
	}
	return out.Indexed()
}

// placeResidual inserts residual causes into the sorted list. They come after causes with higher confidence and regular
// causes with equal confidence, but before symptoms, Open causes and Later causes with equal confidence.
func placeResidual(all []candidate) []candidate {
	var out, left []candidate
	for _, c := range all {
		if c.rule.Residual {
			left = append(left, c)
		} else {
			out = append(out, c)
		}
	}
	for _, c := range left {
		at := 0
		for i, o := range out {
			if rank(o.cause.Confidence) > rank(c.cause.Confidence) ||
				!o.rule.Symptom && !o.rule.Open && !o.rule.Later && rank(o.cause.Confidence) == rank(c.cause.Confidence) {
				at = i + 1
			}
		}
		out = slices.Insert(out, at, c)
	}
	return out
}

// lowerOpen lowers Open causes from high to medium confidence if a residual cause of at least medium confidence
// explains some of the same results. An Open cause names only the two ends between which packets are lost. The residual
// cause may name what drops the packets, so it must not rank below the Open cause.
func lowerOpen(f Findings, all, residual []candidate) []candidate {
	known := map[int]bool{}
	for _, c := range residual {
		if rank(c.cause.Confidence) >= rank(probe.Medium) {
			for _, at := range covers(f, c) {
				known[at] = true
			}
		}
	}
	for i, c := range all {
		shared := func(at int) bool { return known[at] }
		if c.rule.Open && c.cause.Confidence == probe.High && slices.ContainsFunc(covers(f, c), shared) {
			all[i].cause.Confidence = probe.Medium
		}
	}
	return all
}
