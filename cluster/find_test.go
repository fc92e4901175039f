package cluster

import (
	"maps"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
)

// TestNamed wants no node for what two of them have, and a name to be its own node's.
func TestNamed(t *testing.T) {
	t.Parallel()
	node := func(name string, addresses ...string) corev1.Node {
		n := corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}
		for _, a := range addresses {
			n.Status.Addresses = append(n.Status.Addresses, corev1.NodeAddress{Address: a})
		}
		return n
	}
	got := named([]corev1.Node{
		node("a", "10.0.0.1", "a", "localhost", "fd00::1"), node("b", "10.0.0.2", "localhost", "a"), node("c", "localhost"),
	})
	want := map[string]string{"a": "a", "b": "b", "c": "c", "10.0.0.1": "a", "10.0.0.2": "b", "fd00::1": "a",
		"localhost": ""}
	if !maps.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

// TestPodNode asks nobody for what cannot be a pod: there is none, and who said so need not
// say it again.
func TestPodNode(t *testing.T) {
	t.Parallel()
	c, err := NewClient(&rest.Config{Host: "http://127.0.0.1:1"}, "")
	if err != nil {
		t.Fatal(err)
	}
	for _, of := range [][2]string{{"a/b", "x"}, {"default", "../secrets"}, {"default", "a%b"}, {"", "x"}} {
		if node, err := c.PodNode(t.Context(), of[0], of[1]); err != nil || node != "" {
			t.Errorf("%q: %s, %v", of, node, err)
		}
	}
	if _, err := c.PodNode(t.Context(), "default", "x"); err == nil {
		t.Error("an API that does not answer has told of a pod")
	}
}
