package diagnose

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/calico-probe/calico-probe/probe"
)

// TestTooManyCases checks that a rule's surest cases are named and the others counted, and that their results count as
// explained.
func TestTooManyCases(t *testing.T) {
	t.Parallel()
	f := Findings{Node: "a"}
	for i := range 3 * maxCases {
		f.All = append(f.All, Finding{Node: "a", Result: probe.Result{Check: "c", Target: fmt.Sprint(i), Status: probe.Fail}})
	}
	sure := 2 * maxCases // the only certain case
	rule := &Rule{ID: "r", Match: func(f Findings) (out []Case) {
		for i := range f.All {
			c := Case{About: f.All[i].Target, Peer: f.All[i].Target, Says: "so", For: Hints(f.All[i : i+1])}
			if i == sure {
				c.For[0].Weight = Proof
			}
			out = append(out, c)
		}
		return out
	}}
	d := Explain(f, Suite{Rules: []*Rule{rule}})
	if len(d.Causes) != maxCases || d.Causes[0].About != fmt.Sprint(sure) || len(d.Unexplained) != 0 {
		t.Errorf("%d causes, first %+v, unexplained %v", len(d.Causes), d.Causes[0], d.Unexplained)
	}
	more := fmt.Sprintf("; the same holds for %d more that are not listed", 2*maxCases)
	if !slices.ContainsFunc(d.Causes, func(c probe.Cause) bool { return strings.HasSuffix(c.Says, more) }) {
		t.Errorf("no cause says that there are more: %+v", d.Causes)
	}
}
