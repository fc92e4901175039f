package cause

import (
	"slices"

	"github.com/calico-probe/calico-probe/internal/diagnose"
	"github.com/calico-probe/calico-probe/internal/subject/datastore"
	"github.com/calico-probe/calico-probe/internal/subject/dns"
	"github.com/calico-probe/calico-probe/internal/subject/evidence"
	"github.com/calico-probe/calico-probe/probe"
)

// brokenPath returns the findings that a Service's address does not answer while a server behind it does, in the same
// family and transport; the first of answering is behind the first of broken.
func brokenPath(f diagnose.Findings) (broken, answering []diagnose.Finding) {
	for _, id := range []string{datastore.DatastoreLatency.ID, dns.DNSCluster.ID} {
		for _, service := range evidence.ToService(f.Failed(id)) {
			behind := diagnose.Keep(evidence.ToServers(f.Of(id)), func(r diagnose.Finding) bool {
				good := r.Status == probe.OK || r.Status == probe.Warn && id == datastore.DatastoreLatency.ID
				return good && diagnose.FamilyOf(r) == diagnose.FamilyOf(service) &&
					r.Facts.Str(probe.FactTransport) == service.Facts.Str(probe.FactTransport)
			})
			if len(behind) == 0 {
				continue
			}
			broken = append(broken, service)
			if !slices.ContainsFunc(answering,
				func(r diagnose.Finding) bool { return diagnose.QuestionOf(r) == diagnose.QuestionOf(behind[0]) }) {
				answering = append(answering, behind[0])
			}
		}
	}
	return broken, answering
}
