package cause

import (
	"slices"
	"testing"

	"github.com/calico-probe/calico-probe/internal/diagnose"
	"github.com/calico-probe/calico-probe/probe"
)

// shownTwice are causes that each of several checks shows alone.
var shownTwice = map[string]string{
	"breaks-at-next-start": "felix-live and felix-ready say the same",
	"loopback-dropped":     "any two daemons that are silent on the loopback show it",
}

// TestNearMiss wants a recorded night of every cause, and near it one in which the cause is not named, or less surely:
// the same without the answers of one check that speaks for it.
func TestNearMiss(t *testing.T) {
	t.Parallel()
	named, missed := map[string]bool{}, map[string]bool{}
	for _, f := range recorded(t) {
		for _, c := range diagnose.Explain(f, All()).Causes {
			named[c.ID] = true
			if !missed[c.ID] {
				missed[c.ID] = slices.ContainsFunc(c.For, func(clue probe.Clue) bool { return decides(f, c, clue) })
			}
		}
	}
	for _, r := range All().Rules {
		switch {
		case !named[r.ID]:
			t.Errorf("no recorded night names %s", r.ID)
		case !missed[r.ID] && shownTwice[r.ID] == "":
			t.Errorf("no near miss of %s: whichever check lacks its answers, its nights name it as surely", r.ID)
		case missed[r.ID] && shownTwice[r.ID] != "":
			t.Errorf("%s has a near miss: take it out of shownTwice", r.ID)
		}
	}
}

// decides tells whether a cause is not named, or less surely, without the answers of its check.
func decides(f diagnose.Findings, c probe.Cause, clue probe.Clue) bool {
	f.All = slices.DeleteFunc(slices.Clone(f.All), func(r diagnose.Finding) bool {
		return r.Check == clue.Check
	})
	for _, left := range diagnose.Explain(f, All()).Causes {
		if left.ID == c.ID && left.About == c.About {
			return left.Confidence != c.Confidence
		}
	}
	return true
}
