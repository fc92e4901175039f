package cause

import (
	"fmt"
	"net/netip"
	"slices"

	"github.com/calico-probe/calico-probe/internal/diagnose"
	"github.com/calico-probe/calico-probe/internal/subject/datastore"
	"github.com/calico-probe/calico-probe/internal/subject/dns"
	"github.com/calico-probe/calico-probe/internal/subject/evidence"
	"github.com/calico-probe/calico-probe/internal/subject/route"
	"github.com/calico-probe/calico-probe/internal/subject/service"
	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/probe/facts"
	"github.com/calico-probe/calico-probe/probe/node"
)

// defaultRouteMissing matches a node without a route to anything outside its own networks.
func defaultRouteMissing(f diagnose.Findings) []diagnose.Case {
	var out []diagnose.Case
	for _, r := range f.With(route.RouteCanReach.ID, route.FactDefault, false) {
		var refused []diagnose.Finding
		for _, id := range []string{datastore.DatastoreLatency.ID, service.ServiceClusterIP.ID, dns.DNSCluster.ID,
			dns.DNSExternal.ID, datastore.TyphaReach.ID} {
			refused = append(refused, diagnose.Keep(f.Bad(id), func(b diagnose.Finding) bool {
				return b.From == "" && diagnose.ReasonOf(b) == evidence.NoRoute && addressFamily(b) == diagnose.FamilyOf(r)
			})...)
		}
		if len(refused) == 0 {
			continue
		}
		c := diagnose.Case{
			About: diagnose.FamilyName(diagnose.FamilyOf(r)), Family: diagnose.FamilyOf(r),
			Covers: slices.Concat(evidence.Serviceless, evidence.CalicoDown, evidence.Unpulled(f, facts.RefusedOnPath)),
			For:    append(diagnose.Suggests(refused), diagnose.Hints([]diagnose.Finding{r})...),
			Says:   fmt.Sprintf("{node} has no default route, so %s is out of reach: %s", refused[0].Target, refused[0].Saw),
		}
		for _, o := range f.Elsewhere(route.RouteCanReach.ID) {
			if gateway := o.Facts.Str(node.FactGateway); gateway != "" && o.Facts[route.FactDefault] == true &&
				diagnose.FamilyOf(o) == diagnose.FamilyOf(r) && c.FixName == "" {
				c.FixName, c.Args = "by-other", map[string]diagnose.Arg{"gateway": diagnose.AddressArg(gateway),
					"other": diagnose.NodeArg(o.Node)}
			}
			if o.Facts[route.FactDefault] == false && diagnose.FamilyOf(o) == diagnose.FamilyOf(r) { // others do without
				c.Against = append(c.Against, diagnose.Suggests([]diagnose.Finding{o})...)
			}
		}
		out = append(out, c)
	}
	return out
}

// addressFamily returns the family of a result, or else that of the tested address.
func addressFamily(r diagnose.Finding) int {
	if f := diagnose.FamilyOf(r); f != 0 {
		return f
	}
	at, err := netip.ParseAddrPort(r.Facts.Str(probe.FactAddress))
	switch {
	case err != nil:
		return 0
	case at.Addr().Unmap().Is4():
		return 4
	}
	return 6
}
