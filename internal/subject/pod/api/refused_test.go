package api

import (
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/calico-probe/calico-probe/internal/cluster"
	"github.com/calico-probe/calico-probe/internal/cluster/clustertest"
	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/probe/facts"
)

// TestRefused expects a result about pods that the kubelet recently rejected for lack of resources, and about a full
// node.
func TestRefused(t *testing.T) {
	t.Parallel()
	refusedPod := func(age time.Duration, reason, says string) corev1.Pod {
		p := corev1.Pod{}
		p.Namespace, p.Name, p.CreationTimestamp = "default", "np", clustertest.Ago(age)
		p.Status.Phase, p.Status.Reason, p.Status.Message = corev1.PodFailed, reason, says
		return p
	}
	const (
		recorded = "Pod was rejected: Node didn't have enough resource: pods, requested: 1, used: 4, capacity: 4"
		cpu      = "Pod was rejected: Node didn't have enough resource: cpu, requested: %d, used: 1900, capacity: 2000"
	)
	np := refusedPod(20*time.Second, "OutOfpods", recorded)
	proxy := np
	proxy.Namespace = "kube-system"
	short := refusedPod(time.Minute, "OutOfcpu", fmt.Sprintf(cpu, 500))
	other := short
	other.Namespace, other.CreationTimestamp = "team-b", clustertest.Ago(2*time.Minute)
	evicted := refusedPod(time.Minute, "Evicted", "The node was low on resource: memory.")
	device := refusedPod(time.Minute, "UnexpectedAdmissionError", "x")
	huge := refusedPod(time.Minute, "OutOfcpu", fmt.Sprintf(cpu, 64000))
	before := refusedPod(time.Hour, "OutOfpods", recorded)
	own := np
	own.Labels = map[string]string{cluster.LabelOfProbes: cluster.NameOfProbes}
	for name, c := range map[string]struct {
		limit  string
		pods   []corev1.Pod
		status probe.Status
		saw    string
		full   bool
	}{
		"one of the cluster's own":  {"4", []corev1.Pod{proxy}, probe.Fail, "the kubelet rejected 1 pod (kube-system/np), 20s ago: OutOfpods: " + recorded, true},
		"there is room again":       {"9", []corev1.Pod{np}, probe.Warn, "OutOfpods", false},
		"one for CPU":               {"9", []corev1.Pod{short}, probe.Warn, "OutOfcpu", false},
		"two for CPU":               {"9", []corev1.Pod{short, other}, probe.Fail, "the kubelet rejected 2 pods (most recently default/np), ", false},
		"one tenant, full":          {"4", []corev1.Pod{np, np}, probe.Warn, "OutOfpods", true},
		"one tenant, for CPU":       {"9", []corev1.Pod{short, short}, probe.Warn, "OutOfcpu", false},
		"a device plugin":           {"9", []corev1.Pod{device}, probe.Warn, "UnexpectedAdmissionError: x", false},
		"near: more than capacity":  {"9", []corev1.Pod{huge}, probe.Info, "OutOfcpu", false},
		"near: an hour ago":         {"9", []corev1.Pod{before}, probe.OK, "have started", false},
		"near: full, no rejection":  {"4", nil, probe.Info, "the node is full: 4 of 4 pods", true},
		"near: evicted":             {"9", []corev1.Pod{evicted}, probe.OK, "", false},
		"near: a probe of our own":  {"9", []corev1.Pod{own}, probe.OK, "", false},
		"near: no limit is known":   {"", nil, probe.OK, "", false},
		"near: an ended pod is not": {"5", []corev1.Pod{evicted}, probe.OK, "", false},
	} {
		pods := append([]corev1.Pod{}, c.pods...)
		for i := range 4 {
			p := corev1.Pod{}
			p.Namespace, p.Name, p.Status.Phase = "default", fmt.Sprint("p", i), corev1.PodRunning
			state := corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}
			p.Status.ContainerStatuses = []corev1.ContainerStatus{{State: state}}
			pods = append(pods, p)
		}
		s := clustertest.PlacedOn("", "", pods...)
		if c.limit != "" {
			s.Node.Status.Allocatable = corev1.ResourceList{corev1.ResourcePods: resource.MustParse(c.limit)}
		}
		got := ask(t, s, facts.CheckPodsStart)
		t.Run(name, func(t *testing.T) { clustertest.WantFirst(t, got, c.status, c.saw) })
		if last := got[len(got)-1]; (last.Facts[facts.Full] == true) != c.full {
			t.Errorf("%s: %+v", name, last)
		}
	}
}
