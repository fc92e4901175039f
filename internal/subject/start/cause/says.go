package cause

import (
	"slices"

	"github.com/calico-probe/calico-probe/internal/diagnose"
	"github.com/calico-probe/calico-probe/internal/subject/evidence"
	"github.com/calico-probe/calico-probe/internal/subject/felix"
	"github.com/calico-probe/calico-probe/probe/facts"
	"github.com/calico-probe/calico-probe/probe/logs"
)

// lineWeight returns the weight of a log line that names a fault. It is proof if the API also shows that a run exited,
// and only a hint if the API shows that calico-node has been running ever since its first start.
func lineWeight(f diagnose.Findings) int {
	switch {
	case slices.ContainsFunc(f.Bad(facts.CheckCalicoPod), restarts):
		return diagnose.Proof
	case !f.Answered(facts.CheckCalicoPod), startsOver(f):
		return diagnose.Strong
	}
	return diagnose.Hint
}

// logged weighs last log lines that name a known fault.
func logged(f diagnose.Findings, lines []diagnose.Finding) []diagnose.Clue {
	return diagnose.Clues(lineWeight(f), lines)
}

// ended weighs a last log line without a known fault: it may be a symptom, so it is never proof.
func ended(f diagnose.Findings, lines []diagnose.Finding) []diagnose.Clue {
	return diagnose.Clues(min(lineWeight(f), diagnose.Strong), lines)
}

// loggedDown covers the consequences of such a line if calico-node may be down because of it.
func loggedDown(f diagnose.Findings, _ ...string) []diagnose.Cover {
	if lineWeight(f) == diagnose.Hint {
		return nil
	}
	return slices.Concat(diagnose.Covers(logs.CalicoLog.ID), evidence.CalicoDown, evidence.NotStarted)
}

// startsOver reports whether runit may have restarted Felix in a container that keeps running: the container is not
// ready.
func startsOver(f diagnose.Findings) bool {
	return len(f.Bad(facts.CheckCalicoPod)) > 0 && len(f.Bad(felix.FelixReady.ID)) > 0
}

// restarts reports whether the API shows that a container of calico-node's pod exited.
func restarts(pod diagnose.Finding) bool {
	again, _ := pod.Facts.Num(facts.Restarts)
	return again > 0 || pod.Facts.Str(facts.APIReason) != "" || pod.Facts[facts.ExitCode] != nil
}
