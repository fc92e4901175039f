// Package cluster is the reading half of the Kubernetes API: one snapshot of
// what the API knows about a node and its peers, the checks that snapshot
// answers without touching the node, and the pure planner that picks what a
// probe is to ask about. It creates, changes and deletes nothing.
package cluster

import (
	"fmt"
	"time"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/calico-probe/calico-probe/internal/serverclock"
)

// Client reads a cluster.
type Client struct {
	kube  *kubernetes.Clientset
	calls dynamic.Interface
	clock *serverclock.Clock

	groups   []schema.GroupVersion // of Calico's resources, the one to ask first before others
	calicoIn []string              // the namespaces in which Calico's own pods are looked for

	bindings func() ([]rbacv1.ClusterRoleBinding, error) // nil = they are listed each time

	limit time.Duration // of the first try of Read and ReadAll
	// Slow is called where the API server took a connection and did not answer: how long that was waited for, and how long
	// the second try may take. nil = it is not announced.
	Slow func(waited, more time.Duration)
}

// NewClient returns a Client for config, which is not changed. Calico's own pods are those
// in calicoNamespace, "" = where Calico is usually installed (Namespaces).
func NewClient(config *rest.Config, calicoNamespace string) (*Client, error) {
	clock := &serverclock.Clock{}
	own := rest.CopyConfig(config)
	own.Wrap(clock.Transport)
	own.QPS, own.Burst = max(own.QPS, 50), max(own.Burst, 100) // a few dozen small reads, once
	kube, err := kubernetes.NewForConfig(own)
	if err != nil {
		return nil, fmt.Errorf("reading the client configuration: %w", err)
	}
	calls, err := dynamic.NewForConfig(own)
	if err != nil {
		return nil, fmt.Errorf("reading the client configuration: %w", err)
	}
	return &Client{kube: kube, calls: calls, clock: clock, groups: groups, calicoIn: Namespaces(calicoNamespace),
		limit: readLimit}, nil
}
