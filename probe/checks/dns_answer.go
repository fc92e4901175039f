package checks

import (
	"net/netip"
	"slices"
	"strings"

	"github.com/calico-probe/calico-probe/probe"
)

// FactOfService is the list of addresses that the Service of the name has, where the answer has none of them.
const FactOfService probe.Fact = "of_service"

// asServed compares a good answer for the name of the Service kubernetes with the addresses that the Service has. Where
// none of the answer's family is known nothing is compared.
func asServed(p *probe.Pass, r probe.Result) probe.Result {
	answers, _ := r.Facts[FactAnswers].([]string)
	if r.Status != probe.OK || len(answers) == 0 {
		return r
	}
	var has []string
	for _, t := range p.Of(probe.KindDatastore) {
		if t.Name == RoleService && t.Addr.IsValid() {
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
	r.Saw += ", and Service default/kubernetes has " + strings.Join(has, ", ")
	return r.With(FactOfService, has)
}
