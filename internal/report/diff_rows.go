package report

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/calico-probe/calico-probe/probe"
)

// otherTargets is the kind for checks with good answers in both runs, about targets that only one run has.
const otherTargets = "other targets"

// rows writes the changes, then the number of changes of each kind.
func (d Difference) rows(b *strings.Builder) {
	was := "was"
	if d.A.Node != d.B.Node {
		was = "on " + d.A.Node
	}
	counts := map[string]int{}
	named := map[string][]string{} // good answers that only one run has
	head := "\n"
	for _, c := range d.Changes {
		counts[c.Kind]++
		switch {
		case c.Kind == changeAppeared, c.Kind == changeFollowUp, c.Kind == changeVanished && quiet(c.Was):
			named[c.Kind] = append(named[c.Kind], c.Check)
		case counts[c.Kind] <= maxRows:
			what := fmt.Sprintf("%s, %s %s: %s", cmp.Or(string(c.Is), "not answered"), was,
				cmp.Or(string(c.Was), "not answered"), c.Saw)
			if c.Kind == changeFact {
				what = fmt.Sprintf("%s is %v, %s %v", c.Fact, c.To, was, c.From)
			}
			fmt.Fprintf(b, "%s%-*s %-*s %-*s  %s\n", head, widthStatus, c.Kind, widthCheck, c.Check, widthTarget,
				printable(cmp.Or(strings.TrimSpace(c.Target+" "+fromOf(probe.Result{From: c.Pod})), "-")), printable(what))
			head = ""
		case counts[c.Kind] == maxRows+1:
			fmt.Fprintf(b, "%-*s … more with -o json\n", widthStatus, c.Kind)
		}
	}
	both := map[string]bool{}
	for _, check := range named[changeAppeared] {
		both[check] = slices.Contains(named[changeVanished], check)
	}
	for _, kind := range []string{changeAppeared, changeVanished} {
		named[kind] = slices.DeleteFunc(named[kind], func(check string) bool {
			if both[check] {
				named[otherTargets] = append(named[otherTargets], check)
			}
			return both[check]
		})
	}
	for _, only := range []struct{ kind, says string }{{otherTargets, "good in both runs, about other targets"}, {changeAppeared, "answered by B only, with a good result"},
		{changeVanished, "good in A, not answered by B"}, {changeFollowUp, "follow-up checks of one run only"}} {
		if checks := named[only.kind]; len(checks) > 0 {
			slices.Sort(checks)
			fmt.Fprintf(b, "\n%s: %s\n", only.says, strings.Join(slices.Compact(checks), ", "))
		}
	}
	fmt.Fprintf(b, "\n%d worse, %d better, %d appeared, %d vanished, %d facts changed, %d answers unchanged\n",
		counts[changeWorse], counts[changeBetter], counts[changeAppeared], counts[changeVanished], counts[changeFact], d.Same)
}
