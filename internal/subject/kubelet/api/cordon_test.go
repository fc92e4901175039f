package api

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/calico-probe/calico-probe/internal/cluster/clustertest"
	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/probe/facts"
)

// TestCordon expects a cordon to be a warning only if a waiting pod could run on the node.
func TestCordon(t *testing.T) {
	t.Parallel()
	waits := func(message string) corev1.Pod {
		p := corev1.Pod{}
		p.Namespace, p.Name = "default", "t17"
		p.Status.Conditions = []corev1.PodCondition{
			{Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Message: message}}
		return p
	}
	const cordon = "0/2 nodes are available: 1 node(s) didn't match Pod's node affinity/selector, 1 node(s) were unschedulable."
	large := func(p corev1.Pod) corev1.Pod {
		p.Spec.Containers = []corev1.Container{{Resources: corev1.ResourceRequirements{
			Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("1000")}}}}
		return p
	}
	for name, c := range map[string]struct {
		pods   []corev1.Pod
		status probe.Status
		saw    string
	}{
		"a pod waits":        {[]corev1.Pod{waits(cordon)}, probe.Warn, "the node is cordoned; 1 pod waits for a node but cannot run here: default/t17"},
		"for another reason": {[]corev1.Pod{waits("0/2 nodes are available: insufficient cpu")}, probe.Info, "the node is cordoned"},
		"requests too much":  {[]corev1.Pod{large(waits(cordon))}, probe.Info, "the node is cordoned"},
		"no pod waits":       {nil, probe.Info, "the node is cordoned"},
	} {
		s := clustertest.Snapshot(clustertest.Node("a", "10.0.0.1", ""))
		s.Node.Spec.Unschedulable, s.Startup.Value.Kept.Value = true, c.pods
		s.Node.Spec.Taints = []corev1.Taint{{Key: corev1.TaintNodeUnschedulable, Effect: corev1.TaintEffectNoSchedule}}
		s.Node.Status.Allocatable = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("4")}
		got := ask(t, s, facts.CheckNodeTaints)
		clustertest.WantFirst(t, got, c.status, c.saw)
		if _, on := got[0].Facts[facts.Cordoned]; on != (c.status == probe.Warn) {
			t.Errorf("%s: cordoned is %v", name, on)
		}
		s.Node.Spec.Taints = append(s.Node.Spec.Taints,
			corev1.Taint{Key: "nvidia.com/gpu", Effect: corev1.TaintEffectNoSchedule})
		clustertest.WantFirst(t, ask(t, s, facts.CheckNodeTaints), probe.Info,
			"the node is cordoned") // the other taint keeps the pod off too
	}
}
