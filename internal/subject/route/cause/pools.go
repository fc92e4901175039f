package cause

import (
	"fmt"
	"strings"

	"github.com/calico-probe/calico-probe/internal/diagnose"
	"github.com/calico-probe/calico-probe/internal/subject/dns"
	"github.com/calico-probe/calico-probe/internal/subject/service"
	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/probe/facts"
)

// lookAtPools shows the pools, and whose packets are masqueraded.
const lookAtPools = "kubectl get ippools.crd.projectcalico.org -o custom-columns=NAME:.metadata.name,CIDR:.spec.cidr,NAT:.spec.natOutgoing,DISABLED:.spec.disabled,NODES:.spec.nodeSelector"

// podsNotMasqueraded is a pool whose pods nobody outside can answer.
func podsNotMasqueraded(f diagnose.Findings) []diagnose.Case {
	pools := diagnose.Keep(f.With(facts.CheckIPPools, probe.FactReason, facts.PoolUnmasked),
		func(r diagnose.Finding) bool {
			return r.Facts[facts.ToldOutside] == false
		})
	if len(pools) == 0 {
		return nil
	}
	var cut, names []diagnose.Finding
	if pools[0].Facts[facts.APIOutside] == true {
		cut = onlyInPods(f, service.ServiceClusterIP.ID, "default/kubernetes ")
	}
	names = onlyInPods(f, dns.DNSExternal.ID, "")
	name := pools[0].Target
	if len(cut)+len(names) == 0 {
		return bySetting(f, pools[0])
	}
	c := diagnose.Case{About: name,
		Args: map[string]diagnose.Arg{"pool": diagnose.CheckedArg(name, diagnose.IsName(name), "POOL")},
		Says: fmt.Sprintf("pods of IP pool %s get no answer from outside of the cluster: they keep their own addresses there (natOutgoing false), which BGP tells nobody",
			name),
		Covers: diagnose.Covers(dns.DNSExternal.ID)}
	if len(cut) > 0 {
		c.For = append(diagnose.Suggests(cut), diagnose.Hints(pools)...)
	} else {
		c.For = append(diagnose.Hints(names), diagnose.Hints(pools)...)
	}
	for _, r := range cut {
		c.Covers = append(c.Covers, diagnose.Cover{Check: r.Check, About: r.Target})
	}
	return []diagnose.Case{c}
}

// bySetting is such a pool of which no pod was heard to miss an answer: nobody outside may have been asked.
func bySetting(f diagnose.Findings, pool diagnose.Finding) []diagnose.Case {
	answered := diagnose.Keep(f.Of(service.ServiceClusterIP.ID), func(r diagnose.Finding) bool {
		return r.From != "" && r.Status == probe.OK && strings.HasPrefix(r.Target, "default/kubernetes ")
	})
	if pool.Status != probe.Warn || pool.Facts[facts.APIOutside] == true && len(answered) > 0 {
		return nil
	}
	return []diagnose.Case{{About: pool.Target,
		Args: map[string]diagnose.Arg{"pool": diagnose.CheckedArg(pool.Target, diagnose.IsName(pool.Target), "POOL")},
		Says: fmt.Sprintf("pods of IP pool %s can hardly get answers from outside of the cluster: they keep their own addresses there (natOutgoing false), which BGP tells nobody",
			pool.Target),
		For: diagnose.Hints([]diagnose.Finding{pool})}}
}

// onlyInPods are the bad answers of a check inside pods, to questions that the node itself has answered.
func onlyInPods(f diagnose.Findings, check, prefix string) []diagnose.Finding {
	return diagnose.Keep(f.Bad(check), func(r diagnose.Finding) bool {
		if r.From == "" || !strings.HasPrefix(r.Target, prefix) || r.Facts.Str(probe.FactPolicy) != "" {
			return false
		}
		reason := diagnose.ReasonOf(r)
		here := diagnose.Keep(f.Of(check), func(o diagnose.Finding) bool {
			return o.From == "" && o.Target == r.Target && o.Status == probe.OK
		})
		return len(here) > 0 && (reason == "timeout" || reason == "" || reason == "servfail")
	})
}

// poolOverlaps is a range that is given away twice.
func poolOverlaps(f diagnose.Findings) []diagnose.Case {
	out := poolHasAPI(f)
	for _, r := range f.Failed(facts.CheckIPPools) {
		out = append(out, diagnose.Case{About: r.Target, Says: fmt.Sprintf("IP pool %s has addresses in it that are not pods': %s", r.Target, r.Saw),
			For: diagnose.Suggests([]diagnose.Finding{r}), Covers: diagnose.Covers(facts.CheckIPPools)})
	}
	return out
}

// poolHasAPI is a pool for whose sake packets to the API server are not masqueraded, so that its answers go nowhere.
func poolHasAPI(f diagnose.Findings) []diagnose.Case {
	cut := onlyInPods(f, service.ServiceClusterIP.ID, "default/kubernetes ")
	if len(cut) == 0 {
		return nil
	}
	for _, r := range f.With(facts.CheckIPPools, probe.FactReason, facts.PoolHasAPI) {
		c := diagnose.Case{About: r.Target,
			Args:   map[string]diagnose.Arg{"pool": diagnose.CheckedArg(r.Target, diagnose.IsName(r.Target), "POOL")},
			Says:   fmt.Sprintf("pods get no answer from the API server: IP pool %s has its address in it", r.Target),
			For:    append(diagnose.Suggests(cut), diagnose.Hints([]diagnose.Finding{r})...),
			Covers: diagnose.Covers(facts.CheckIPPools),
			Fix: &probe.Fix{
				Says: "Give the pool a range in which nobody else is: make another, and delete this one once no block of it is left.",
				Manifest: []string{lookAtPools,
					"kubectl get blockaffinities.crd.projectcalico.org -o custom-columns=NODE:.spec.node,CIDR:.spec.cidr"},
				OnlyIf: []probe.Conditional{{If: "no pod has an address of the pool",
					Manifest: []string{"kubectl delete ippools.crd.projectcalico.org {pool}"}}},
				Radius: "every pod: what they send into that range has the node's address from then on",
			}}
		for _, one := range cut {
			c.Covers = append(c.Covers, diagnose.Cover{Check: one.Check, About: one.Target})
		}
		return []diagnose.Case{c}
	}
	return nil
}
