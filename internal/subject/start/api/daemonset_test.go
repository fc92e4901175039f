package api

import (
	"errors"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/calico-probe/calico-probe/internal/cluster"
	"github.com/calico-probe/calico-probe/internal/cluster/clustertest"
	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/probe/facts"
)

// TestSkipped expects the selector, affinity or taint because of which a DaemonSet creates no pod for the node.
func TestSkipped(t *testing.T) {
	need := func(key string, op corev1.NodeSelectorOperator, values ...string) *corev1.Affinity {
		term := corev1.NodeSelectorTerm{
			MatchExpressions: []corev1.NodeSelectorRequirement{{Key: key, Operator: op, Values: values}},
		}
		required := &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{term}}
		return &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{RequiredDuringSchedulingIgnoredDuringExecution: required}}
	}
	taint := corev1.Taint{Key: "dedicated", Value: "gpu", Effect: corev1.TaintEffectNoSchedule}
	for name, c := range map[string]struct {
		spec   corev1.PodSpec
		taints []corev1.Taint
		why    string
		saw    string
	}{
		"recorded: a label of a migration": {corev1.PodSpec{NodeSelector: map[string]string{"projectcalico.org/operator-node-migration": "pre-operator"}}, nil,
			facts.SkipsSelector, "requires projectcalico.org/operator-node-migration=pre-operator, but the node lacks this label"},
		"another value": {corev1.PodSpec{NodeSelector: map[string]string{"zone": "east"}}, nil,
			facts.SkipsSelector, `but the node has "west"`},
		"an affinity": {corev1.PodSpec{Affinity: need("zone", corev1.NodeSelectorOpNotIn, "west")}, nil,
			facts.SkipsAffinity, "zone NotIn west"},
		"a number": {corev1.PodSpec{Affinity: need("cores", corev1.NodeSelectorOpGt, "8")}, nil,
			facts.SkipsAffinity, "cores Gt 8"},
		"a taint":       {corev1.PodSpec{}, []corev1.Taint{taint}, facts.SkipsTaint, "taint dedicated=gpu:NoSchedule"},
		"near: it fits": {corev1.PodSpec{NodeSelector: map[string]string{"zone": "west"}, Affinity: need("cores", corev1.NodeSelectorOpLt, "8")}, nil, facts.SkipsUnexplained, "selects the node but has no pod on it"},
		"near: it tolerates": {corev1.PodSpec{Tolerations: []corev1.Toleration{{Key: "dedicated", Value: "gpu"}}},
			[]corev1.Taint{taint}, facts.SkipsUnexplained, "selects"},
		"near: all taints": {corev1.PodSpec{Tolerations: []corev1.Toleration{{Operator: corev1.TolerationOpExists}}},
			[]corev1.Taint{taint}, facts.SkipsUnexplained, "selects"},
		"near: the controller's": {corev1.PodSpec{}, []corev1.Taint{{Key: corev1.TaintNodeUnschedulable,
			Effect: corev1.TaintEffectNoSchedule},
			{Key: "x", Effect: corev1.TaintEffectPreferNoSchedule}}, facts.SkipsUnexplained, "selects"},
	} {
		n := clustertest.Node("a", "10.0.0.1", "")
		n.Labels = map[string]string{"zone": "west", "cores": "4"}
		n.Spec.Taints = c.taints
		s := clustertest.Snapshot(n)
		set := cluster.CalicoSet{}
		set.Namespace, set.Name, set.Spec.Template.Spec = "kube-system", "calico-node", c.spec
		s.Sets.Value = []cluster.CalicoSet{set}
		got := ask(t, s, facts.CheckCalicoPod)
		t.Run(name, func(t *testing.T) { clustertest.WantFirst(t, got, probe.Fail, c.saw) })
		if why := got[0].Facts.Str(facts.Skips); why != c.why {
			t.Errorf("%s: %q, want %q", name, why, c.why)
		}
		by := map[string]string{"another value": "zone=east", "a taint": "dedicated=gpu:NoSchedule",
			"recorded: a label of a migration": "projectcalico.org/operator-node-migration=pre-operator"}[name]
		if have := got[0].Facts.Str(facts.SkippedBy); have != by {
			t.Errorf("%s: skipped by %q, want %q", name, have, by)
		}
	}
	s := clustertest.Snapshot(clustertest.Node("a", "10.0.0.1", ""))
	s.Sets.Value = []cluster.CalicoSet{}
	clustertest.WantFirst(t, ask(t, s, facts.CheckCalicoPod), probe.Fail, "no calico-node DaemonSet exists either")
	s.Sets = cluster.Read[[]cluster.CalicoSet]{Err: errors.New("forbidden")}
	if got := ask(t, s, facts.CheckCalicoPod); got[0].Facts.Str(facts.Skips) != facts.SkipsSelector { // the label is gone
		t.Errorf("%v", got)
	}
}

// TestRefusedPods expects the API server's current answer to a DaemonSet that cannot create its pod, not an earlier
// one.
func TestRefusedPods(t *testing.T) {
	t.Parallel()
	const webhook = `Internal error occurred: failed calling webhook \"pod-hook.topolvm.io\": service \"topolvm-controller\" not found`
	const failed = `{"reason":"FailedCreate","message":"Error creating: ` + webhook + `","source":{"component":"daemonset-controller"},"lastTimestamp":"2026-11-22T12:00:01Z"}`
	const other = `{"reason":"FailedDaemonPod","message":"before","lastTimestamp":"2026-11-22T12:00:03Z"}`
	created := func(at string) string {
		return `{"reason":"SuccessfulCreate","message":"Created pod","source":{"component":"daemonset-controller"},"lastTimestamp":"2026-11-22T12:00:0` + at + `Z"}`
	}
	for name, c := range map[string]struct{ events, why, saw string }{
		"recorded: a webhook without a backend": {created("0") + "," + failed + "," + other, facts.SkipsRefused,
			`DaemonSet kube-system/calico-node cannot create its pod: Internal error occurred: failed calling webhook "pod-hook.topolvm.io"`},
		"an admission policy": {strings.ReplaceAll(failed, webhook, `pods \"calico-node-7wp58\" is forbidden: ValidatingAdmissionPolicy 'non-root' denied request: no`),
			facts.SkipsRefused, `cannot create its pod: ValidatingAdmissionPolicy 'non-root' denied request: no`},
		"near: created one since": {failed + "," + created("2"), facts.SkipsUnexplained, "selects the node but has no pod on it"},
		"near: an event of another component": {strings.ReplaceAll(failed, "daemonset-controller", "mine"),
			facts.SkipsUnexplained, "selects the node"},
		"near: no event": {"", facts.SkipsUnexplained, "selects the node"},
	} {
		client := clustertest.ServerOf(t, map[string]string{
			"/apis/apps/v1/namespaces/kube-system/daemonsets":   `{"kind":"DaemonSetList","apiVersion":"apps/v1","items":[{"metadata":{"namespace":"kube-system","name":"calico-node","uid":"1"},"spec":{"template":{"metadata":{"labels":{"k8s-app":"calico-node"}}}}}]}`,
			"/apis/apps/v1/namespaces/calico-system/daemonsets": `{"kind":"DaemonSetList","apiVersion":"apps/v1","items":[]}`,
			"/api/v1/namespaces/kube-system/events":             `{"kind":"EventList","apiVersion":"v1","items":[` + c.events + `]}`,
		}, nil)
		s := clustertest.Snapshot(clustertest.Node("a", "10.0.0.1", ""))
		s.Sets.Value, s.Sets.Err = client.ReadSets(t.Context())
		got := ask(t, s, facts.CheckCalicoPod)
		clustertest.WantFirst(t, got, probe.Fail, c.saw)
		if why := got[0].Facts.Str(facts.Skips); why != c.why {
			t.Errorf("%s: %q, want %q", name, why, c.why)
		}
	}
}
