package cause

import (
	"fmt"
	"slices"
	"strings"

	"github.com/calico-probe/calico-probe/internal/diagnose"
	"github.com/calico-probe/calico-probe/internal/subject/evidence"
	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/probe/facts"
)

// networkCondition is another than Calico that calls the node's network unavailable.
var networkCondition = &diagnose.Rule{
	ID: "network-condition-foreign", Layer: diagnose.LayerRoutes,
	Title: "a component other than Calico marked the node's network unavailable",
	Doc: `The condition NetworkUnavailable of a Node makes the control plane taint it with node.kubernetes.io/network-unavailable:NoSchedule: pods that run go on, no other is scheduled there. calico-node writes it at its start (CalicoIsUp) and at its end (CalicoIsDown), and not in between. Any other reason is another program's: NoRouteCreated is the route controller of a cloud (cloud-controller-manager, kube-controller-manager), which wants a route for the node's podCIDR in the cloud's network and cannot make it; Calico needs none of these.
Told from a Calico that is not up by calico-node, which is.`,
	Fix: probe.Fix{
		Says: "Turn off that program's route controller, because Calico makes the network here; or give it the rights and routes that its event names. Then restart calico-node, which writes the condition at its start.",
		Manifest: []string{
			`kubectl get node {node} -o jsonpath='{.status.conditions[?(@.type=="NetworkUnavailable")]}'; kubectl describe node {node} | tail -20`,
			"kubectl get pods -A -o yaml | grep -e configure-cloud-routes -e allocate-node-cidrs  # of the controller managers",
		},
		OnlyIf: []probe.Conditional{
			{If: "it is a route controller, and Calico shall do without it: --configure-cloud-routes=false for the cloud-controller-manager, or kube-controller-manager; when that is done",
				Manifest: []string{"kubectl delete pod -n {namespace} {pod}"}},
		},
		Radius: "reading changes nothing; calico-node's restart leaves this node's pods and routes alone",
	},
	RuledOut: []string{facts.CheckCalicoPod, facts.CheckNodeLease},
	Match: func(f diagnose.Findings) []diagnose.Case {
		set := slices.DeleteFunc(diagnose.Keep(f.Bad(facts.CheckNodeReady), diagnose.About(evidence.NetworkUnavailable)),
			func(r diagnose.Finding) bool {
				reason := r.Facts.Str(facts.APIReason)
				return reason == "" || strings.HasPrefix(reason, "Calico")
			})
		// A node on which Calico has not been up yet has the condition of who registered it.
		if len(set) == 0 || len(f.Bad(facts.CheckCalicoPod)) > 0 {
			return nil
		}
		weight := diagnose.Strong
		if len(diagnose.Good(f, facts.CheckCalicoPod)) > 0 {
			weight = diagnose.Proof
		}
		writer := "another program than Calico"
		if name := set[0].Facts.Str(facts.Writer); name != "" {
			writer += fmt.Sprintf(" (%s)", name)
		}
		c := diagnose.Case{
			Says:   fmt.Sprintf("%s calls the network of {node} unavailable, so no new pod is scheduled there: %s", writer, set[0].Saw),
			For:    diagnose.Clues(weight, set),
			Covers: []diagnose.Cover{{Check: facts.CheckNodeReady, About: evidence.NetworkUnavailable}},
		}
		if taintedByCondition(f) {
			c.Covers = append(c.Covers, diagnose.Covers(facts.CheckNodeTaints)...)
		}
		return []diagnose.Case{c}
	},
}

// taintedByCondition tells whether the only taint of the control plane is that of the condition.
func taintedByCondition(f diagnose.Findings) bool {
	const of, prefix = "node.kubernetes.io/network-unavailable", "node.kubernetes.io/"
	for _, r := range f.Bad(facts.CheckNodeTaints) {
		for _, taint := range diagnose.ListOf(r, facts.Taints) {
			if strings.HasPrefix(taint, prefix) && !strings.HasPrefix(taint, of) &&
				!strings.HasPrefix(taint, prefix+"unschedulable") {
				return false
			}
		}
	}
	return true
}
