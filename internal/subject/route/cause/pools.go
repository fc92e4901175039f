package cause

import (
	"strings"

	"github.com/calico-probe/calico-probe/internal/diagnose"
	"github.com/calico-probe/calico-probe/probe"
)

// onlyInPods CHECK [BEGINNING] returns the bad results of a check inside pods, for targets with this beginning, if the
// same check from the node itself is good.
func onlyInPods(f diagnose.Findings, args ...string) []diagnose.Finding {
	check, prefix := args[0], strings.Join(args[1:], "")
	return diagnose.Keep(f.Bad(check), func(r diagnose.Finding) bool {
		if r.From == "" || !strings.HasPrefix(r.Target, prefix) || r.Facts.Str(probe.FactPolicy) != "" {
			return false
		}
		reason := diagnose.ReasonOf(r)
		here := diagnose.Keep(f.Of(check), func(o diagnose.Finding) bool {
			return o.From == "" && o.Target == r.Target && o.Status == probe.OK
		})
		return len(here) > 0 && (reason == "timeout" || reason == "" || reason == "servfail")
	})
}
