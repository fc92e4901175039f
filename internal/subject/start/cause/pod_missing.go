package cause

import (
	"strings"

	"github.com/calico-probe/calico-probe/internal/diagnose"
	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/probe/facts"
)

const missingRadius = "this node: calico-node starts on it, which leaves its pods alone; a changed DaemonSet restarts calico-node on every node, one after the other"

// missingFix names the one label, taint or object to change for a node without calico-node's pod; nil where the reason
// is not known.
func missingFix(r diagnose.Finding) (*probe.Fix, map[string]diagnose.Arg) {
	by := r.Facts.Str(facts.SkippedBy)
	switch r.Facts.Str(facts.Skips) {
	case facts.SkipsRefused:
		return &refusedFix, nil
	case facts.SkipsSelector:
		key, _, _ := strings.Cut(by, "=")
		if key != "" {
			return &selectorFix, map[string]diagnose.Arg{"label": labelArg(by), "key": labelArg(key)}
		}
	case facts.SkipsTaint:
		if by != "" {
			return &taintFix, map[string]diagnose.Arg{"taint": labelArg(by)}
		}
	case facts.SkipsAffinity:
		return &affinityFix, nil
	case facts.SkipsNoSet:
		return &noSetFix, nil
	}
	return nil, nil
}

// labelArg is a label KEY=VALUE or a taint KEY=VALUE:EFFECT.
func labelArg(s string) diagnose.Arg {
	return diagnose.CheckedArg(s, diagnose.IsWord(strings.Replace(s, "=", "", 1)), "KEY=VALUE")
}

var selectorFix = probe.Fix{
	Says: "Label this node {label}, or remove {key} from the DaemonSet's nodeSelector.",
	Manifest: []string{"kubectl get nodes -L {key}  # which nodes have the label",
		"kubectl -n {namespace} get daemonset {daemonset} -o jsonpath='{.spec.template.spec.nodeSelector}'"},
	OnlyIf: []probe.Conditional{
		{If: "this node lost the label", Manifest: []string{"kubectl label node {node} --overwrite {label}"}},
		{If: "the nodeSelector should not have {key} (a migration to the operator that was not completed leaves one)",
			Manifest: []string{"kubectl -n {namespace} edit daemonset {daemonset}  # spec.template.spec.nodeSelector: remove that line"},
			Operator: []string{"kubectl edit installation default  # spec.calicoNodeDaemonSet: the operator sets the DaemonSet from here"}},
	},
	Radius: missingRadius,
}

var taintFix = probe.Fix{
	Says: "Remove taint {taint} from this node, or have the DaemonSet tolerate it.",
	Manifest: []string{"kubectl get node {node} -o jsonpath='{.spec.taints}'",
		"kubectl -n {namespace} get daemonset {daemonset} -o jsonpath='{.spec.template.spec.tolerations}'"},
	OnlyIf: []probe.Conditional{
		{If: "the taint is not meant for this node", Manifest: []string{"kubectl taint node {node} {taint}-"}},
		{If: "the taint is meant, as for a dedicated node: Calico's own manifest tolerates every taint",
			Manifest: []string{`kubectl -n {namespace} patch daemonset {daemonset} --type json -p '[{"op":"add","path":"/spec/template/spec/tolerations","value":[{"operator":"Exists"}]}]'`},
			Operator: []string{"kubectl edit installation default  # spec.calicoNodeDaemonSet: the operator sets the DaemonSet from here"}},
	},
	Radius: missingRadius,
}

var affinityFix = probe.Fix{
	Says: "Give this node the labels that the DaemonSet's required node affinity names, or remove that affinity.",
	Manifest: []string{"kubectl -n {namespace} get daemonset {daemonset} -o jsonpath='{.spec.template.spec.affinity.nodeAffinity}'",
		"kubectl get node {node} --show-labels"},
	OnlyIf: []probe.Conditional{{If: "the affinity should not be there", Manifest: []string{"kubectl -n {namespace} edit daemonset {daemonset}"},
		Operator: []string{"kubectl edit installation default  # spec.calicoNodeDaemonSet"}}},
	Radius: missingRadius,
}

var noSetFix = probe.Fix{
	Says:     "Apply Calico's manifest or chart again: the DaemonSet of calico-node does not exist. With the operator, start the operator.",
	Manifest: []string{"kubectl get daemonsets,deployments -A | grep -i -e calico -e tigera", "kubectl get tigerastatus"},
	Radius:   "reading changes nothing; the DaemonSet starts calico-node on every node, which leaves running pods alone",
}
