package api

import (
	"errors"
	"strings"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/calico-probe/calico-probe/internal/cluster"
	"github.com/calico-probe/calico-probe/internal/cluster/clustertest"
	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/probe/facts"
)

// TestDecoy reads a node on which a tenant's pod poses as calico-node. It expects the decoy to be reported as ignored,
// and used for nothing else.
func TestDecoy(t *testing.T) {
	t.Parallel()
	var f clustertest.Fleet
	f.Add("a", func(_ *corev1.Node, _ *coordinationv1.Lease, p *corev1.Pod) {
		p.Spec.Containers = []corev1.Container{{Name: cluster.CalicoContainer}}
		p.Status.ContainerStatuses[0] = corev1.ContainerStatus{Name: cluster.CalicoContainer, RestartCount: 7}
		p.Status.ContainerStatuses[0].State.Waiting = &corev1.ContainerStateWaiting{Reason: "CrashLoopBackOff"}
	})
	f.Pods = append(f.Pods, *clustertest.Tenants("a", time.Now()))
	s, err := f.Client(t).Read(t.Context(), "a")
	if err != nil {
		t.Fatal(err)
	}
	if s.Calico.Value == nil || s.Calico.Value.Namespace != "kube-system" || s.Calico.Err != nil {
		t.Errorf("calico-node is %v, %v", s.Calico.Value, s.Calico.Err)
	}
	if err := errors.Join(s.Etcd.Err, s.Typha.Err); err != nil || len(s.Etcd.Value)+len(s.Typha.Value.Targets) > 0 {
		t.Errorf("etcd %v, Typha %v, %v", s.Etcd.Value, s.Typha.Value.Targets, err)
	}
	got := ask(t, s, facts.CheckCalicoPod)
	clustertest.WantFirst(t, got, probe.Fail, "CrashLoopBackOff")
	last := got[len(got)-1]
	if len(got) != 2 || last.Status != probe.Info || last.Target != "tenant/calico-node" ||
		!strings.Contains(last.Saw, "is not Calico's: ignored") {
		t.Errorf("%v, want the decoy reported", got)
	}
	// Causes find calico-node by these facts.
	if last.Facts.Str(facts.Pod) != "" || last.Facts.Str(facts.Owner) != "" {
		t.Errorf("the decoy has facts: %v", last.Facts)
	}
	f.Pods = f.Pods[1:] // without the real one
	if s, err = f.Client(t).Read(t.Context(), "a"); err != nil {
		t.Fatal(err)
	}
	got = ask(t, s, facts.CheckCalicoPod)
	clustertest.WantFirst(t, got, probe.Fail, "no calico-node pod on this node (label "+cluster.CalicoPods+", namespace kube-system or calico-")
	if s.Calico.Value != nil || len(got) != 2 || len(s.Etcd.Value) > 0 {
		t.Errorf("%v, etcd %v", got, s.Etcd.Value)
	}
}

// TestUnverified expects unknown, never missing, if two pods claim to be calico-node.
func TestUnverified(t *testing.T) {
	t.Parallel()
	var f clustertest.Fleet
	f.Add("a", nil)
	twin := f.Pods[0].DeepCopy()
	twin.Namespace = "calico-system"
	f.Pods = append(f.Pods, *twin)
	s, err := f.Client(t).Read(t.Context(), "a")
	if err != nil {
		t.Fatal(err)
	}
	clustertest.WantFirst(t, ask(t, s, facts.CheckCalicoPod), probe.Unknown, "2 DaemonSets claim to be calico-node")
	clustertest.WantFirst(t, ask(t, s, facts.CheckCalicoBudget), probe.Unknown,
		"calico-node's pod is not known: see calico-pod")
	_, gaps := cluster.Targets(s)
	for _, kind := range []string{probe.KindFelix, probe.KindTypha, probe.KindBackend, probe.KindCalico} {
		if !strings.Contains(gaps[kind], "calico-node's pod is not known: see calico-pod") {
			t.Errorf("the gap of %s is %q", kind, gaps[kind])
		}
	}
}
