package cluster

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/calico-probe/calico-probe/probe"
)

// TestCalicosLogs requires log targets for Calico's own pods on the node, and none for a pod that only has their label.
func TestCalicosLogs(t *testing.T) {
	t.Parallel()
	pod := func(namespace, app, on string, owned bool) corev1.Pod {
		p := corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: app + "-x", UID: "u",
			Labels: map[string]string{"k8s-app": app}}, Spec: corev1.PodSpec{NodeName: on}}
		if owned {
			p.OwnerReferences = []metav1.OwnerReference{{Kind: "ReplicaSet", Name: app, Controller: new(true)}}
		}
		return p
	}
	s := snapshot(node("a", "10.0.0.1", ""))
	s.Controllers.Value = []corev1.Pod{pod("kube-system", "calico-kube-controllers", "a", true),
		pod("kube-system", "calico-kube-controllers", "b", true)}
	got := s.calicosLogs([]corev1.Pod{pod("kube-system", "calico-typha", "a", true),
		pod("shop", "calico-typha", "a", true), pod("kube-system", "calico-typha", "a", false)})
	if len(got) != 2 || got[0].Attrs[probe.AttrLogs] != "kube-system_calico-kube-controllers-x_u" ||
		got[1].Name != "calico-typha" {
		t.Errorf("%v", got)
	}
}
