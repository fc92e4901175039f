package api

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/calico-probe/calico-probe/internal/cluster/clustertest"
	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/probe/facts"
)

func TestChecksAreWellFormed(t *testing.T) {
	if err := probe.Validate(Checks(nil)); err != nil {
		t.Error(err)
	}
}

// TestFixFacts expects the facts that fixes insert into their commands.
func TestFixFacts(t *testing.T) {
	s := clustertest.Snapshot(clustertest.Node("a", "10.0.0.1", ""))
	s.Calico.Value = clustertest.Calico(3)
	daemonset := true
	s.Calico.Value.OwnerReferences = []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "DaemonSet", Name: "canal",
		Controller: &daemonset}}
	if got := ask(t, s, "calico-pod"); got[0].Facts.Str(facts.Owner) != "canal" || got[0].Facts[facts.Operator] != false {
		t.Errorf("%v", got)
	}
	s.Calico.Value.Annotations = map[string]string{"hash.operator.tigera.io/typha-ca": "1"}
	if got := ask(t, s, "calico-pod"); got[0].Facts[facts.Operator] != true {
		t.Errorf("%v", got)
	}
	spec := &s.Calico.Value.Spec.Containers[0]
	spec.StartupProbe = &corev1.Probe{PeriodSeconds: 5, FailureThreshold: 12}
	if got := ask(t, s, "calico-budget"); got[0].Facts[facts.Period] != 5 ||
		got[0].Facts.Str(facts.BudgetProbe) != "startup" {
		t.Errorf("%v", got)
	}
	s.Node.Labels = map[string]string{"node-role.kubernetes.io/control-plane": ""}
	s.Node.Status.NodeInfo = corev1.NodeSystemInfo{KubeletVersion: "v1.34.1+k3s1",
		ContainerRuntimeVersion: "containerd://2.1.4-k3s1"}
	got := ask(t, s, "node-ready")
	if f := got[0].Facts; f.Str(facts.Kubelet) != "v1.34.1+k3s1" || f.Str(facts.Runtime) != "containerd" ||
		f[facts.ControlPlane] != true {
		t.Errorf("%v", got)
	}
}
