package cause

import (
	"fmt"
	"slices"

	"github.com/calico-probe/calico-probe/internal/diagnose"
	"github.com/calico-probe/calico-probe/internal/subject/datastore"
	"github.com/calico-probe/calico-probe/internal/subject/evidence"
	"github.com/calico-probe/calico-probe/probe"
)

// apiAddressWrong is projectcalico/calico#8645.
func apiAddressWrong(f diagnose.Findings) []diagnose.Case {
	told := evidence.InRole(f.Failed(datastore.DatastoreLatency.ID), datastore.RoleConfigured)
	others := diagnose.Keep(evidence.ToServers(f.Of(datastore.DatastoreLatency.ID)), func(r diagnose.Finding) bool {
		return r.Status != probe.Fail && diagnose.IsAnswered(r.Status)
	})
	if len(told) == 0 || len(others) == 0 {
		return nil
	}
	r := told[0]
	return []diagnose.Case{{
		Says: fmt.Sprintf("%s tells calico-node on {node} that the API server is at %s, where none answers (%s); it answers at %s",
			r.Facts.Str(datastore.FactSetBy), r.Facts.Str(probe.FactAddress), diagnose.ReasonOf(r),
			others[0].Facts.Str(probe.FactAddress)),
		For:    append(diagnose.Proves(told), diagnose.Shows(others[:1])...),
		Covers: slices.Concat(evidence.WithoutDatastore, evidence.NotStarted),
	}}
}
