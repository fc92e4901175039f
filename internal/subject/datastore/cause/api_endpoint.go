package cause

import (
	"fmt"
	"net/netip"
	"strings"

	"github.com/calico-probe/calico-probe/internal/diagnose"
	"github.com/calico-probe/calico-probe/internal/subject/datastore"
	"github.com/calico-probe/calico-probe/internal/subject/evidence"
	"github.com/calico-probe/calico-probe/internal/subject/service"
	"github.com/calico-probe/calico-probe/internal/subject/start"
	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/probe/node"
)

// apiEndpointDead matches an endpoint of the Service kubernetes that does not answer while another endpoint does. It
// returns at most two cases.
func apiEndpointDead(f diagnose.Findings) []diagnose.Case {
	var out []diagnose.Case
	direct := evidence.ToServers(f.Of(datastore.DatastoreLatency.ID))
	living := diagnose.Keep(direct, func(r diagnose.Finding) bool {
		return r.Status == probe.OK ||
			r.Status == probe.Warn
	})
	for _, dead := range diagnose.Keep(direct, func(r diagnose.Finding) bool { return r.Status == probe.Fail }) {
		if reason := diagnose.ReasonOf(dead); len(living) == 0 || reason == "unhealthy" || reason == "alert" ||
			reason == node.CertificateExpired {
			continue
		}
		at, host := dead.Facts.Str(probe.FactAddress), ""
		if addr, err := netip.ParseAddrPort(at); err == nil {
			host = addr.Addr().String()
		}
		same := diagnose.Keep(f.Elsewhere(datastore.DatastoreLatency.ID), func(r diagnose.Finding) bool {
			return r.Target == dead.Target && diagnose.IsAnswered(r.Status)
		})
		if len(diagnose.Keep(same, func(r diagnose.Finding) bool { return r.Status != probe.Fail })) > 0 {
			continue // the endpoint answers other nodes: the path is at fault
		}
		slice, weight := dead.Facts.Str(datastore.FactSlice), diagnose.Strong
		c := diagnose.Case{
			About: at, Family: diagnose.FamilyOf(dead),
			Says: fmt.Sprintf("the Service kubernetes has a dead endpoint, %s (EndpointSlice default/kubernetes); others answer", at),
			Args: map[string]diagnose.Arg{"server": diagnose.AddressArg(host)},
		}
		if slice != "" {
			c.Says = fmt.Sprintf("EndpointSlice %s, which no API server created, adds the dead endpoint %s to the Service kubernetes; others answer",
				slice, at)
			_, name, _ := strings.Cut(slice, "/")
			c.FixName, c.Args["slice"] = "foreign-slice", diagnose.CheckedArg(name, diagnose.IsName(name), "SLICE")
			if len(same) > 0 {
				weight = diagnose.Proof
			}
		}
		c.For = append(diagnose.Clues(weight, []diagnose.Finding{dead}), diagnose.Shows(same, living)...)
		c.Covers = []diagnose.Cover{{Check: service.ServiceClusterIP.ID, About: "default/kubernetes"},
			{Check: datastore.DatastoreLatency.ID, About: "service"},
			{Check: start.InitStall.ID}}
		out = append(out, c)
	}
	return out[:min(len(out), 2)]
}
