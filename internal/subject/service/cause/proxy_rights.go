package cause

import (
	"slices"

	"github.com/calico-probe/calico-probe/internal/diagnose"
	"github.com/calico-probe/calico-probe/internal/subject/evidence"
	"github.com/calico-probe/calico-probe/internal/subject/link"
	"github.com/calico-probe/calico-probe/internal/subject/service"
	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/probe/facts"
)

// proxyForbidden is a kube-proxy that hears of no change.
var proxyForbidden = &diagnose.Rule{
	ID: "kube-proxy-forbidden", Layer: diagnose.LayerDatastore, Title: "kube-proxy's service account lacks permissions",
	Doc: `kube-proxy lists and watches Services and EndpointSlices. Where its ClusterRole (system:node-proxier) or the binding lacks one of them, the rules that are in the kernel stay as they are: Services of before work until their pods change, Services that are newer have no rules and do not answer, on every node where kube-proxy started or lost its watch since. It calls itself healthy all the while. After a restart it may write no rules at all.
Told from a kube-proxy that hangs by its answer, and by what the API server says of its account.`,
	Fix: probe.Fix{
		Says: "Put the role and its binding back; an API server makes system:node-proxier anew at its start, unless it is told not to (annotation rbac.authorization.kubernetes.io/autoupdate).",
		Manifest: []string{
			"kubectl get clusterrole system:node-proxier -o yaml",
			"kubectl get clusterrolebindings -o wide | grep -e node-proxier -e NAME",
		},
		Radius: "reading changes nothing; kube-proxy goes on by itself when it has its rights, within a minute or so",
	},
	RuledOut: []string{link.NodeUplink.ID},
	Explains: []string{"service-path-broken", "kube-proxy-stuck", "kube-proxy-cut-off", "kube-proxy-ends",
		"kube-proxy-rules-lost", "dns-down"},
	Match: func(f diagnose.Findings) []diagnose.Case {
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
	},
}
