package ask

import (
	"net/netip"
	"slices"
	"strings"

	"github.com/calico-probe/calico-probe/internal/subject/dns"
	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/probe/node"
)

// compareService compares a good answer for the Service kubernetes with the Service's addresses. It compares only
// addresses of the same family.
func compareService(p *probe.Pass, r probe.Result) probe.Result {
	answers, _ := r.Facts[node.FactAnswers].([]string)
	if r.Status != probe.OK || len(answers) == 0 {
		return r
	}
	var has []string
	for _, t := range p.Of(probe.KindDatastore) {
		if t.Name == probe.RoleService && t.Addr.IsValid() {
			has = append(has, t.Addr.String())
		}
	}
	families := map[bool]bool{}
	for _, text := range has {
		families[strings.Contains(text, ":")] = true
	}
	for _, text := range answers {
		a, err := netip.ParseAddr(text)
		if err != nil || !families[a.Is6()] || slices.Contains(has, a.String()) {
			return r
		}
	}
	r.Status = probe.Fail
	r.Saw += ", but Service default/kubernetes has " + strings.Join(has, ", ")
	return r.With(dns.FactOfService, has)
}
