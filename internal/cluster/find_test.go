package cluster

import (
	"maps"
	"net/netip"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
)

// TestNamed requires no node for a name or address that two nodes share, and that a name belongs to its own node.
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

// TestPodNode requires no request for a name that cannot be a pod's.
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

// TestNodesAt requires every node with an address, in any format, and no node for a name that looks like an address.
func TestNodesAt(t *testing.T) {
	t.Parallel()
	node := func(name string, kind corev1.NodeAddressType, address string) corev1.Node {
		return corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name},
			Status: corev1.NodeStatus{Addresses: []corev1.NodeAddress{{Type: kind, Address: address}}}}
	}
	nodes := []corev1.Node{
		node("good", corev1.NodeInternalIP, "fd00::1"), node("evil", corev1.NodeInternalIP, "FD00:0::1"),
		node("mapped", corev1.NodeExternalIP, "::ffff:10.0.0.1"), node("named", corev1.NodeHostName, "10.0.0.2"),
		node("odd", corev1.NodeInternalIP, "10.0.0"),
	}
	for addr, want := range map[string][]string{
		"fd00::1": {"evil", "good"}, "10.0.0.1": {"mapped"}, "::ffff:10.0.0.1": {"mapped"}, "10.0.0.2": nil,
	} {
		if got := nodesAt(nodes, netip.MustParseAddr(addr)); !slices.Equal(got, want) {
			t.Errorf("%s: %q, want %q", addr, got, want)
		}
	}
}
