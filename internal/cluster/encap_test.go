package cluster

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// TestOpposite requires that the preferred node gets the second pod only if it is as healthy as a baseline node: an
// untrusted node may have supplied its name.
func TestOpposite(t *testing.T) {
	t.Parallel()
	node := func(name string, cordoned bool) corev1.Node {
		ready := corev1.NodeCondition{Type: corev1.NodeReady, Status: corev1.ConditionTrue}
		return corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: corev1.NodeSpec{Unschedulable: cordoned},
			Status: corev1.NodeStatus{Conditions: []corev1.NodeCondition{ready}}}
	}
	nodes := []corev1.Node{node("a", false), node("b", false), node("c", true), node("d", false)}
	s := &Snapshot{Node: &nodes[0], Survey: Survey{Nodes: nodes}}
	for preferred, want := range map[string]string{"d": "d", "a": "b", "c": "b", "nosuch": "b", "": "b"} {
		if got := Opposite(s, preferred); got == nil || got.Name != want {
			t.Errorf("%q preferred: %v, want %s", preferred, got, want)
		}
	}
}
