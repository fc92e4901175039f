package cause

import (
	"slices"

	"github.com/calico-probe/calico-probe/internal/diagnose"
	"github.com/calico-probe/calico-probe/internal/subject/evidence"
	"github.com/calico-probe/calico-probe/internal/subject/service"
	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/probe/facts"
)

// proxyForbidden is a kube-proxy that hears of no change.
func proxyForbidden(f diagnose.Findings) []diagnose.Case {
	lacks := f.Bad(facts.CheckProxyRights)
	if len(lacks) == 0 {
		return nil
	}
	weight := diagnose.Proof
	runs := f.Where(func(r diagnose.Finding) bool {
		return r.Check == service.KubeProxyHealth.ID &&
			r.Status == probe.OK
	})
	if lacks[0].Status != probe.Fail { // whose account that is, and whether a kube-proxy has it, is not known
		if weight = diagnose.Hint; len(runs) > 0 {
			weight = diagnose.Strong
		}
	}
	return []diagnose.Case{{
		Says: "kube-proxy on {node} hears nothing of new Services: " + lacks[0].Saw,
		For:  slices.Concat(diagnose.Clues(weight, lacks), diagnose.Hints(runs)), Covers: evidence.Serviceless,
	}}
}
