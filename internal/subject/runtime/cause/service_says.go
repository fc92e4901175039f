package cause

import (
	"fmt"
	"slices"

	"github.com/calico-probe/calico-probe/internal/diagnose"
	"github.com/calico-probe/calico-probe/internal/subject/evidence"
	"github.com/calico-probe/calico-probe/internal/subject/runtime"
	"github.com/calico-probe/calico-probe/probe/logs"
)

// runtimeEnds is a container runtime that says itself why it ends.
func runtimeEnds(f diagnose.Findings) []diagnose.Case {
	gone := []string{"refused", "missing"}
	var out []diagnose.Case
	for service, down := range map[string][]diagnose.Finding{
		logs.ServiceContainerd: diagnose.Keep(f.Failed(runtime.ContainerdHealth.ID), diagnose.Because(gone...)),
		logs.ServiceDocker:     diagnose.Keep(f.Failed(runtime.DockerHealth.ID), diagnose.Because(gone...)),
		logs.ServiceCRIO:       diagnose.Keep(f.Failed(runtime.CRIHealth.ID), diagnose.Because(gone...)),
	} {
		lines := evidence.ServiceEnds(f, service)
		if len(lines) == 0 || evidence.ShownElsewhere(f, lines[0]) {
			continue
		}
		c := diagnose.Case{
			About: service, Says: fmt.Sprintf("%s on {node} does not stay up: %s", service, lines[0].Saw),
			For:    slices.Concat(diagnose.Clues(evidence.EndWeight(lines[0], len(down) > 0), lines), diagnose.Shows(down)),
			Covers: runtimeGone,
		}
		if service == logs.ServiceContainerd {
			c.Against = diagnose.Suggests(diagnose.Good(f, runtime.ContainerdHealth.ID)) // it has been started since
		}
		out = append(out, c)
	}
	slices.SortFunc(out, func(a, b diagnose.Case) int { return len(a.About) - len(b.About) })
	return out
}
