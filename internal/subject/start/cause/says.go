package cause

import (
	"slices"

	"github.com/calico-probe/calico-probe/internal/diagnose"
	"github.com/calico-probe/calico-probe/internal/subject/evidence"
	"github.com/calico-probe/calico-probe/internal/subject/felix"
	"github.com/calico-probe/calico-probe/probe/facts"
	"github.com/calico-probe/calico-probe/probe/logs"
)

// lineWeight is how much a line weighs that says a fault outright. It is proof where the API knows of a run that ended
// too, and no more than a hint where the API says that calico-node has run ever since it began.
func lineWeight(f diagnose.Findings) int {
	switch {
	case slices.ContainsFunc(f.Bad(facts.CheckCalicoPod), restarts):
		return diagnose.Proof
	case !f.Answered(facts.CheckCalicoPod), startsOver(f):
		return diagnose.Strong
	}
	return diagnose.Hint
}

// logged weighs the last lines of runs that name a known fault.
func logged(f diagnose.Findings, lines []diagnose.Finding) []diagnose.Clue {
	return diagnose.Clues(lineWeight(f), lines)
}

// ended weighs a last line that names none: it may be a symptom.
func ended(f diagnose.Findings, lines []diagnose.Finding) []diagnose.Clue {
	return diagnose.Clues(min(lineWeight(f), diagnose.Strong), lines)
}

// loggedDown is what follows from such a line, where calico-node may be down because of it.
func loggedDown(f diagnose.Findings, _ ...string) []diagnose.Cover {
	if lineWeight(f) == diagnose.Hint {
		return nil
	}
	return slices.Concat(diagnose.Covers(logs.CalicoLog.ID), evidence.CalicoDown, evidence.NotStarted)
}

// startsOver reports whether runit may have begun Felix again in a container that goes on: nothing of it is ready.
func startsOver(f diagnose.Findings) bool {
	return len(f.Bad(facts.CheckCalicoPod)) > 0 && len(f.Bad(felix.FelixReady.ID)) > 0
}

// restarts reports whether what the API says of calico-node's pod is of a container that ended.
func restarts(pod diagnose.Finding) bool {
	again, _ := pod.Facts.Num(facts.Restarts)
	return again > 0 || pod.Facts.Str(facts.APIReason) != "" || pod.Facts[facts.ExitCode] != nil
}
