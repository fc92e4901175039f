package ask

import (
	"net/netip"
	"slices"
	"strings"

	"github.com/calico-probe/calico-probe/internal/subject/cni"
	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/probe/node"
)

// familiesWithoutPool returns the address families that a network requests but that have no enabled pool. It returns
// nil if the pools are unknown or no pool is enabled, because an API check reports that.
func familiesWithoutPool(p *probe.Pass, requested []string) []string {
	if node.Unlisted(p, probe.KindPool) != nil {
		return nil
	}
	has := map[string]bool{}
	for _, t := range p.Of(probe.KindPool) {
		pool, err := netip.ParsePrefix(t.Name)
		if err != nil || t.Attrs[probe.AttrDisabled] != "" {
			continue
		}
		has[map[bool]string{true: "IPv4", false: "IPv6"}[pool.Addr().Is4()]] = true
	}
	if len(has) == 0 {
		return nil
	}
	return slices.DeleteFunc(slices.Clone(requested), func(family string) bool { return has[family] })
}

// withPools compares the network's families with the pools. Calico's IPAM assigns an address in each requested family,
// or fails.
func withPools(p *probe.Pass, r probe.Result) probe.Result {
	requested, _ := r.Facts[cni.FactAssigns].([]string)
	lacking := familiesWithoutPool(p, requested)
	if r.Status != probe.OK || len(lacking) == 0 {
		return r
	}
	r.Status = probe.Fail
	r.Saw += "; it requests " + strings.Join(lacking, " and ") + " addresses, and Calico has no enabled " + lacking[0] +
		" pool: no new pod gets a network"
	return r.With(probe.FactReason, cni.CNIFamily).With(cni.FactLacking, lacking)
}
