package explain

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/calico-probe/calico-probe/internal/diagnose"
	"github.com/calico-probe/calico-probe/probe"
)

// Run prints why a run names or does not name a cause: first the answer, then the evidence.
func Run(out io.Writer, rule *diagnose.Rule, node string, why diagnose.Why) {
	fmt.Fprintf(out, "%s on %s: %s\n%s\n", rule.ID, probe.Line(node), verdictOf(why), rule.Title)
	for _, c := range why.Cases {
		fmt.Fprintf(out, "\n%s, score %d (3 or more is high confidence, 1 low)\n",
			strings.TrimSpace(probe.Line(c.About)+" "+c.Became), c.Score)
		writeClues(out, "for", c.For)
		writeClues(out, "against", c.Against)
	}
	if len(why.Steps) > 0 {
		fmt.Fprintf(out, "\nits match (explain %s shows its text):\n", rule.ID)
	}
	for _, step := range why.Steps {
		fmt.Fprintf(out, "  %-12s %s\n", stepResult(step), step.Text)
	}
	fmt.Fprintf(out, "\nchecks it reads:\n")
	for _, read := range why.Reads {
		fmt.Fprintf(out, "  %-22s %s\n", read.Check, countsOf(read))
	}
	for _, id := range rule.Wants {
		if !slices.ContainsFunc(why.Reads, func(r diagnose.Read) bool { return r.Check == id && len(r.Counts) > 0 }) {
			fmt.Fprintf(out, "  %-22s wanted: an answer makes the cause surer\n", id)
		}
	}
}

// verdictOf returns the answer in one sentence.
func verdictOf(why diagnose.Why) string {
	missing := 0
	for _, read := range why.Reads {
		if len(read.Counts) == 0 && read.Others == 0 {
			missing++
		}
	}
	became := func(c diagnose.CaseWhy) bool { return c.Became == "named" }
	switch {
	case why.Crash != "":
		return "unknown, the rule failed: it " + why.Crash
	case slices.ContainsFunc(why.Cases, became):
		return "named"
	case len(why.Cases) > 0:
		return "not named: " + why.Cases[0].Became
	case missing > 0 && missing == len(why.Reads):
		return "not named: the run has no result of the checks that the rule reads"
	case missing > 0:
		return fmt.Sprintf("not named: nothing fits; the run has no result of %d of the %d checks it reads", missing,
			len(why.Reads))
	}
	return "not named: no result fits"
}

func writeClues(out io.Writer, word string, clues []diagnose.Clue) {
	for _, clue := range clues {
		place := strings.TrimSpace(clue.Check + " " + clue.Target)
		fmt.Fprintf(out, "  %-8s %d  [%s] %s: %s\n", word, clue.Weight, clue.Status, probe.Line(place), probe.Line(clue.Saw))
	}
}

func stepResult(step diagnose.Step) string {
	switch {
	case step.Case && step.Holds:
		return "case holds"
	case step.Case:
		return "case fails"
	case step.Found == 1:
		return "1 finding"
	}
	return fmt.Sprintf("%d findings", step.Found)
}

// countsOf describes a run's results for a check.
func countsOf(read diagnose.Read) string {
	var parts []string
	for _, s := range []probe.Status{probe.Fail, probe.Warn, probe.Info, probe.OK, probe.Unknown, probe.Skip} {
		if n := read.Counts[s]; n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", n, s))
		}
	}
	if read.Others > 0 {
		parts = append(parts, fmt.Sprintf("%d on other nodes", read.Others))
	}
	return cmp.Or(strings.Join(parts, ", "), "no result in this run")
}
