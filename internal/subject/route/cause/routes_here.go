package cause

import (
	"fmt"
	"slices"
	"strings"

	"github.com/calico-probe/calico-probe/internal/diagnose"
	"github.com/calico-probe/calico-probe/internal/subject/datastore"
	"github.com/calico-probe/calico-probe/internal/subject/dns"
	"github.com/calico-probe/calico-probe/internal/subject/route"
	"github.com/calico-probe/calico-probe/internal/subject/service"
	"github.com/calico-probe/calico-probe/probe"
)

// podRouteMissing matches a pod of this node without a route to its interface.
func podRouteMissing(f diagnose.Findings) []diagnose.Case {
	var out []diagnose.Case
	for _, r := range f.Failed(route.RoutePods.ID) {
		pods := slices.Concat(diagnose.ListOf(r, route.FactNoRoute), diagnose.ListOf(r, route.FactWrong))
		if len(pods) == 0 {
			continue
		}
		_, address, _ := strings.Cut(pods[0], " ")
		c := diagnose.Case{
			About: r.Target, Family: diagnose.FamilyOf(r), For: diagnose.Proves([]diagnose.Finding{r}),
			Covers: ofPods(f, diagnose.FamilyOf(r), pods),
			Args:   map[string]diagnose.Arg{"address": diagnose.AddressArg(address)},
			Says:   fmt.Sprintf("packets to %s do not reach the pod: %s", strings.Join(pods, ", "), r.Saw),
		}
		if down := diagnose.ListOf(r, route.FactDown); len(down) > 0 {
			c.Says = fmt.Sprintf("the interface of %s on {node} is down, which removed its route: %s",
				diagnose.CountOf(float64(len(down)), "pod"), r.Saw)
			c.Args["device"], c.FixName = diagnose.DeviceArg(down[0]), "interface-down"
		}
		out = append(out, c)
	}
	return out
}

// ofPods returns the bad results about some of this node's pods, results from inside them, and results about Services,
// which may have an endpoint there.
func ofPods(f diagnose.Findings, family int, pods []string) []diagnose.Cover {
	var out []diagnose.Cover
	services := []string{service.ServiceClusterIP.ID, service.ServiceNodePort.ID, dns.DNSCluster.ID,
		dns.DNSExternal.ID, datastore.DatastoreLatency.ID}
	for _, r := range f.Where(func(r diagnose.Finding) bool {
		return diagnose.IsBad(r.Status) ||
			r.Status == probe.Unknown
	}) {
		inside := r.From != "" && slices.ContainsFunc(pods,
			func(pod string) bool { return strings.HasPrefix(pod, r.From+" ") })
		service := slices.Contains(services, r.Check) && diagnose.ReasonOf(r) != "refused"
		same := diagnose.FamilyOf(r) == 0 || diagnose.FamilyOf(r) == family
		if inside || same && service || slices.Contains(pods, r.Target) {
			out = append(out, diagnose.Cover{Check: r.Check, About: r.Target})
		}
	}
	return out
}
