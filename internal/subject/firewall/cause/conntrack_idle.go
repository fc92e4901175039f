package cause

import (
	"github.com/calico-probe/calico-probe/internal/diagnose"
	"github.com/calico-probe/calico-probe/internal/subject/firewall"
)

// conntrackIdle is a node that forgets idle connections.
func conntrackIdle(f diagnose.Findings) []diagnose.Case {
	for _, r := range f.Bad(firewall.NodeConntrack.ID) {
		if r.Target == firewall.TargetIdle {
			weight := diagnose.Strong
			if r.Facts[firewall.FactLoose] == false {
				weight = diagnose.Proof
			}
			return []diagnose.Case{{Says: "on {node} " + r.Saw, For: diagnose.Clues(weight, []diagnose.Finding{r}),
				Covers: []diagnose.Cover{{Check: r.Check, About: r.Target}}}}
		}
	}
	return nil
}
