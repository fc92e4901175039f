package cluster

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// TestOfEachPool requires a pod of every pool before a second pod of the first pool.
func TestOfEachPool(t *testing.T) {
	t.Parallel()
	pod := func(name, address string) corev1.Pod {
		return corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name}, Status: corev1.PodStatus{PodIP: address}}
	}
	pools := Specs{"default": {"cidr": "10.244.0.0/16"}, "team": {"cidr": "10.245.0.0/16"}}
	all := []corev1.Pod{pod("a", "10.244.0.1"), pod("b", "10.244.0.2"), pod("c", "10.244.0.3"), pod("d", "10.245.0.1")}
	names := func(n int) (out string) {
		for _, p := range ofEachPool(all, pools, n) {
			out += p.Name
		}
		return out
	}
	if got := names(3); got != "adb" {
		t.Errorf("three are %s", got)
	}
	if got := names(1); got != "a" {
		t.Errorf("one is %s", got)
	}
	if got := ofEachPool(all[:2], nil, 3); len(got) != 2 || got[0].Name != "a" {
		t.Errorf("without pools: %v", got)
	}
	if got := ofEachPool(nil, pools, 3); got != nil {
		t.Errorf("of none: %v", got)
	}
}
