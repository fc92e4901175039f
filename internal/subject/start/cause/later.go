package cause

import (
	"fmt"
	"net"

	"github.com/calico-probe/calico-probe/internal/diagnose"
	"github.com/calico-probe/calico-probe/internal/subject/felix"
	"github.com/calico-probe/calico-probe/probe"
)

// breaksAtNextStart is a setting that the Felix that runs has not read.
func breaksAtNextStart(f diagnose.Findings) []diagnose.Case {
	var seen []diagnose.Finding
	for _, id := range []string{felix.FelixLive.ID, felix.FelixReady.ID} {
		seen = append(seen, diagnose.Keep(f.Of(id),
			func(r diagnose.Finding) bool { return r.Facts.Str(felix.FactNextStart) != "" })...)
	}
	if len(seen) == 0 {
		return nil
	}
	next := seen[0].Facts.Str(felix.FactNextStart)
	if _, _, err := net.SplitHostPort(next); err != nil {
		next = "elsewhere"
	}
	return []diagnose.Case{{
		Says: fmt.Sprintf("Felix on {node} is well at %s, and will answer at %s from its next start on, where calico-node's probe does not ask", seen[0].Facts.Str(probe.FactAddress), next),
		For:  diagnose.Proves(seen),
	}}
}
