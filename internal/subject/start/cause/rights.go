package cause

import (
	"slices"
	"strings"

	"github.com/calico-probe/calico-probe/internal/diagnose"
	"github.com/calico-probe/calico-probe/internal/subject/evidence"
	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/probe/facts"
)

// lacking are the bad answers of calico-rights about one of its targets, the account or the kinds,
// where calico-node is not up.
func lacking(f diagnose.Findings, target string) []diagnose.Finding {
	return diagnose.Keep(f.Failed(facts.CheckCalicoRights), diagnose.About(target))
}

// lacks is the case of what calico-node needs and has not, by the API alone.
func lacks(found []diagnose.Finding) []diagnose.Case {
	if len(found) == 0 {
		return nil
	}
	r := found[0]
	c := diagnose.Case{Says: r.Saw, For: diagnose.Proves(found), Covers: diagnose.Covers(facts.CheckCalicoRights)}
	c.Covers = slices.Concat(c.Covers, evidence.CalicoDown, evidence.NotStarted)
	account := r.Facts.Str(facts.Account)
	namespace, name, _ := strings.Cut(account, ":")
	c.Args = map[string]diagnose.Arg{"account": diagnose.CheckedArg(account, diagnose.IsName(namespace) &&
		diagnose.IsName(name), "NAMESPACE:NAME")}
	return []diagnose.Case{c}
}

// also adds what the API says to a case that the log made.
func also(c diagnose.Case, found []diagnose.Finding) diagnose.Case {
	c.For = append(c.For, diagnose.Hints(found)...)
	c.Covers = append(c.Covers, diagnose.Covers(facts.CheckCalicoRights)...)
	return c
}

// nextStartRefused is what a calico-node that runs needs at its next start.
var nextStartRefused = &diagnose.Rule{
	ID: "next-start-refused", Layer: diagnose.LayerDatastore, Title: "calico-node runs, but its next start would be refused",
	Doc: `Rights of calico-node's account, or kinds of Calico's, were taken away while it runs. It goes on with what it knows: routes, rules and sessions stay. What it no longer does: make new tokens for the CNI plugin (a day), hear of new policies and nodes. At the next start of its pod (an upgrade, a reboot, a liveness probe) install-cni or the start is refused, and then the node is without Calico; every node has it at once.
Told from rights that already keep it down by its pod, which is ready.`,
	Fix: probe.Fix{
		Says: "Put the roles, bindings or CRDs back before anything restarts calico-node: they are in the manifest, chart or operator of the version that runs.",
		Manifest: []string{
			"kubectl get clusterroles,clusterrolebindings -o wide | grep -E 'calico|NAME'",
			"kubectl get crds | grep projectcalico.org",
			"kubectl -n {namespace} get ds {daemonset} -o jsonpath='{.spec.template.spec.containers[0].image}'  # the version",
		},
		Operator: []string{"kubectl get tigerastatus calico -o yaml  # the operator makes them anew by itself, unless it does not run"},
		Radius:   "reading changes nothing; what is put back takes nothing away. Do not restart calico-node before",
	},
	Explains: []string{"cni-token-expired"},
	Match: func(f diagnose.Findings) []diagnose.Case {
		later := diagnose.Keep(f.With(facts.CheckCalicoRights, facts.Later, true),
			func(r diagnose.Finding) bool { return diagnose.IsBad(r.Status) })
		if len(later) == 0 {
			return nil
		}
		return []diagnose.Case{{Says: later[0].Saw, For: diagnose.Proves(later),
			Covers: diagnose.Covers(facts.CheckCalicoRights)}}
	},
}
