package cause

import (
	"github.com/calico-probe/calico-probe/internal/diagnose"
	"github.com/calico-probe/calico-probe/internal/subject/evidence"
	"github.com/calico-probe/calico-probe/probe/logs"
)

// localhostMissing is projectcalico/calico#5228.
func localhostMissing(f diagnose.Findings) []diagnose.Case {
	lines := diagnose.Keep(f.With(logs.CalicoLog.ID, logs.FactSignature, logs.SaysNoLocalhost),
		func(r diagnose.Finding) bool { return diagnose.IsBad(r.Status) })
	closed := evidence.OfLiveness(f, "refused")
	if len(lines) == 0 {
		return nil
	}
	return []diagnose.Case{{
		Says: "localhost has no address on {node}: " + lines[0].Facts.Str(logs.FactLine),
		For:  append(diagnose.Suggests(lines), diagnose.Hints(closed)...), Covers: evidence.FelixIll,
	}}
}
