package main

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/calico-probe/calico-probe/injector"
	"github.com/calico-probe/calico-probe/install"
)

func TestDestination(t *testing.T) {
	t.Parallel()
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "worker-3"}, Status: corev1.NodeStatus{Addresses: []corev1.NodeAddress{
		{Type: corev1.NodeHostName, Address: "w3"}, {Type: corev1.NodeInternalIP, Address: "10.0.0.7"}, {Type: corev1.NodeInternalIP, Address: "fd00::7"},
	}}}
	for ssh, want := range map[string]string{
		"": "10.0.0.7", "admin@{ip}": "admin@10.0.0.7", "{node}.example.com": "worker-3.example.com", "jump": "jump",
	} {
		if got := (&runOptions{ssh: ssh}).destination(node); got != want {
			t.Errorf("%q: %s, want %s", ssh, got, want)
		}
	}
	if got := (&runOptions{ssh: "admin@{ip}"}).destination(&corev1.Node{}); got != "" {
		t.Errorf("without an address: %s", got)
	}
}

// TestForbiddenPod wants whoever may not create pods beside calico-node told of the
// namespace where 'install' grants it, and nobody else.
func TestForbiddenPod(t *testing.T) {
	t.Parallel()
	for namespace, want := range map[string]bool{"kube-system": true, install.Namespace: false, "": false} {
		for _, reason := range []injector.Reason{injector.ReasonRBAC, injector.ReasonQuota} {
			saw := unplaced(wayPod, namespace, &injector.PlacementError{Reason: reason, Text: "no right to create a pod"}).Result.Saw
			if got := strings.Contains(saw, besides); got != (want && reason == injector.ReasonRBAC) {
				t.Errorf("%q, %s: %s", namespace, reason, saw)
			}
		}
	}
}
