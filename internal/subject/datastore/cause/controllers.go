package cause

import (
	"fmt"

	"github.com/calico-probe/calico-probe/internal/diagnose"
	"github.com/calico-probe/calico-probe/internal/subject/evidence"
	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/probe/facts"
	"github.com/calico-probe/calico-probe/probe/logs"
)

// controllersEnd is a calico-kube-controllers that does not get up, or is not there.
var controllersEnd = &diagnose.Rule{
	ID: "controllers-end", Layer: diagnose.LayerCalico, Later: true,
	Title: "calico-kube-controllers is not running, so unused addresses are not released",
	Doc: `calico-kube-controllers takes away what Kubernetes no longer has: addresses of pods and nodes that are gone, their blocks, Calico's data of nodes. Nothing of the node breaks while it is away; over days the pools fill with addresses that nobody has, blocks stay with nodes that are gone, and new pods get no address one day. It ends where it lacks a right, its account or a CRD, or does not reach the API server; as a pod of its own it does not where Calico does not work on its node.
Told from a node whose pods have no network by the others there, which are well.`,
	Fix: probe.Fix{
		Says: "Correct what its quoted last line names: a right, a ServiceAccount, a CRD or the way to the API server. Once it runs, it frees the addresses of pods that are gone.",
		Manifest: []string{"kubectl get deployments,pods -A -l k8s-app=calico-kube-controllers -o wide",
			"kubectl -n {namespace} logs deploy/calico-kube-controllers --tail=30 --previous",
			"kubectl -n {namespace} describe deploy/calico-kube-controllers | tail -12"},
		Radius: "reading changes nothing; one that starts frees addresses that no pod has any more",
	},
	Match: func(f diagnose.Findings) []diagnose.Case {
		ends := evidence.KubeEnds(f, "calico-kube-controllers")
		none := diagnose.Keep(f.Bad(facts.CheckControllers), diagnose.Because(facts.ControllersNone))
		gone := diagnose.Keep(f.With(facts.CheckAccounts, facts.AccountOf, facts.AccountControllers),
			diagnose.Because(facts.AccountGone))
		loops := diagnose.Keep(f.Bad(facts.CheckControllers), func(r diagnose.Finding) bool {
			return r.Facts.Str(facts.APIReason) == "CrashLoopBackOff"
		})
		c := diagnose.Case{For: diagnose.Shows(loops, gone), Covers: diagnose.Covers(facts.CheckControllers,
			logs.KubeLog.ID, facts.CheckAccounts),
			Says: "nobody frees the addresses of pods and nodes that are gone: "}
		switch {
		case len(gone) > 0:
			c.Says += fmt.Sprintf("the ServiceAccount %s of calico-kube-controllers is gone", gone[0].Facts.Str(facts.Account))
			c.For = append(diagnose.Proves(gone), diagnose.Shows(loops, none)...)
		case len(ends) > 0:
			c.Says += "calico-kube-controllers ends: " + evidence.QuotedLine(ends[0])
			weight := diagnose.Proof
			if ends[0].Facts.Str(logs.FactSignature) == logs.SaysNoAPI { // as what has no network does
				weight = diagnose.Hint
			}
			c.For = append(diagnose.Clues(weight, ends), c.For...)
		case len(none) > 0:
			c.Says += none[0].Saw
			c.For = append(diagnose.Suggests(none), c.For...)
		case len(loops) > 0 && len(diagnose.Good(f, facts.CheckCalicoPod)) > 0:
			c.Says += "calico-kube-controllers " + loops[0].Saw
			c.For = diagnose.Hints(loops)
		default:
			return nil
		}
		return []diagnose.Case{c}
	},
}
