package cluster

import (
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/probe/facts"
)

// TestCordon wants a cordon to be a warning only where a pod waits that could run on the node.
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
		"a pod waits":            {[]corev1.Pod{waits(cordon)}, probe.Warn, "the node is cordoned; 1 pod waits for a node and may not be here: default/t17"},
		"for other parts":        {[]corev1.Pod{waits("0/2 nodes are available: insufficient cpu")}, probe.Info, "the node is cordoned"},
		"for more than there is": {[]corev1.Pod{large(waits(cordon))}, probe.Info, "the node is cordoned"},
		"none waits":             {nil, probe.Info, "the node is cordoned"},
	} {
		s := snapshot(node("a", "10.0.0.1", ""))
		s.Node.Spec.Unschedulable, s.startup.Value.kept.Value = true, c.pods
		s.Node.Spec.Taints = []corev1.Taint{{Key: corev1.TaintNodeUnschedulable, Effect: corev1.TaintEffectNoSchedule}}
		s.Node.Status.Allocatable = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("4")}
		got := ask(t, s, facts.CheckNodeTaints)
		wantFirst(t, got, c.status, c.saw)
		if _, on := got[0].Facts[facts.Cordoned]; on != (c.status == probe.Warn) {
			t.Errorf("%s: cordoned is %v", name, on)
		}
		s.Node.Spec.Taints = append(s.Node.Spec.Taints,
			corev1.Taint{Key: "nvidia.com/gpu", Effect: corev1.TaintEffectNoSchedule})
		wantFirst(t, ask(t, s, facts.CheckNodeTaints), probe.Info, "the node is cordoned") // which keeps the pods off too
	}
}

// TestPodsAreStarting wants pods that have not started to be counted as such, however short they wait.
func TestPodsAreStarting(t *testing.T) {
	t.Parallel()
	s := snapshot(node("a", "10.0.0.1", ""))
	p := &corev1.Pod{}
	p.Namespace, p.Name = "default", "young"
	s.placed.pods.Value = make([]corev1.Pod, 3)
	s.placed.waiting.Value = []waiter{{pod: p, since: s.Now.Add(-5 * time.Second)}}
	if r := s.started(); r.Saw != "of 3 pods bound to the node 1 are starting, the first for 5s: default/young" {
		t.Errorf("%q", r.Saw)
	}
	s.placed.waiting.Value = nil
	if r := s.started(); !strings.HasPrefix(r.Saw, "all pods that are bound") {
		t.Errorf("%q", r.Saw)
	}
}

// TestMisserved wants what is wrong with a DNS Service beside its endpoints.
func TestMisserved(t *testing.T) {
	t.Parallel()
	port := func(protocol corev1.Protocol) corev1.ServicePort {
		return corev1.ServicePort{Port: 53, Protocol: protocol}
	}
	for name, c := range map[string]struct {
		label string
		ports []corev1.ServicePort
		want  string
	}{
		"well":        {"", []corev1.ServicePort{port(corev1.ProtocolUDP), port(corev1.ProtocolTCP)}, ""},
		"no UDP":      {"", []corev1.ServicePort{port(corev1.ProtocolTCP)}, facts.EmptyNoUDP},
		"UDP alone":   {"", []corev1.ServicePort{port(corev1.ProtocolUDP)}, ""},
		"another one": {"cilium", []corev1.ServicePort{port(corev1.ProtocolUDP)}, facts.EmptyOtherProxy},
	} {
		svc := &corev1.Service{Spec: corev1.ServiceSpec{Ports: c.ports}}
		if c.label != "" {
			svc.Labels = map[string]string{proxyName: c.label}
		}
		if got, _ := misserved(svc); got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}
