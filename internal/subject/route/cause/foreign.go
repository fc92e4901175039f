package cause

import (
	"slices"

	"github.com/calico-probe/calico-probe/internal/diagnose"
	"github.com/calico-probe/calico-probe/internal/subject/evidence"
	"github.com/calico-probe/calico-probe/internal/subject/route"
	"github.com/calico-probe/calico-probe/probe"
)

// foreignRoutingRule is projectcalico/calico#4662.
func foreignRoutingRule(f diagnose.Findings) []diagnose.Case {
	var out []diagnose.Case
	for _, r := range f.Failed(route.RouteRules.ID) {
		if r.Facts.Str(probe.FactRule) == "" {
			continue
		}
		c := diagnose.Case{
			About: diagnose.FamilyName(diagnose.FamilyOf(r)), Family: diagnose.FamilyOf(r), Says: "on {node} " + r.Saw,
			For: diagnose.Proves([]diagnose.Finding{r}),
			Args: map[string]diagnose.Arg{"table": diagnose.NumberArg(diagnose.Num([]diagnose.Finding{r}, route.FactTable)),
				"pref": diagnose.NumberArg(diagnose.Num([]diagnose.Finding{r}, route.FactPref))},
		}
		if r.Facts[route.FactRejects] == true {
			c.Fix = evidence.DropRejectingRule
		}
		for _, check := range slices.Concat(evidence.PathChecks, []string{route.RouteBlocks.ID}) {
			for _, one := range f.Bad(check) {
				if diagnose.FamilyOf(one) == diagnose.FamilyOf(r) && diagnose.ReasonOf(one) != "refused" &&
					diagnose.ReasonOf(one) != "rejected" {
					c.Covers = append(c.Covers, diagnose.Cover{Check: check, About: one.Target})
				}
			}
		}
		out = append(out, c)
	}
	return out
}
