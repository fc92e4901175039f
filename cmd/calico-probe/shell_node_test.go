package main

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/calico-probe/calico-probe/cluster"
)

// TestNodeMeant wants what is typed for a node to be any part of its name that no other
// node's has, as in the list a session begins with.
func TestNodeMeant(t *testing.T) {
	t.Parallel()
	snap := &cluster.Snapshot{}
	for _, name := range []string{"worker", "worker-1", "worker-12", "gpu-a", "n1", "n2", "n3", "n4", "n5", "n6"} {
		snap.Nodes = append(snap.Nodes, corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}})
	}
	c := &conversation{at: &seat{snap: snap}}
	for typed, want := range map[string]string{
		"worker": "worker", "worker-1": "worker-1", "12": "worker-12", "gpu": "gpu-a", "nowhere": "nowhere",
		"worker-": "! fits 2 nodes: worker-1, worker-12", "n": "! fits 6 nodes: n1, n2, n3, n4, n5, ...",
	} {
		got, err := c.meant(typed)
		if want, ambiguous := strings.CutPrefix(want, "!"); ambiguous != (err != nil) || err != nil && !strings.HasSuffix(err.Error(), want) || err == nil && got != want {
			t.Errorf("%s: %q, %v", typed, got, err)
		}
	}
	if got, err := (&conversation{}).meant("any"); got != "any" || err != nil {
		t.Errorf("of a session that begins: %q, %v", got, err)
	}
}
