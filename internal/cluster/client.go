// Package cluster is the reading half of the Kubernetes API:
//
//	NewClient -> Client.Read -> Snapshot (one node and its cluster) -> Targets (what a probe is to ask about)
//	          -> Client.ReadAll -> Survey (the cluster) -> Survey.Of, Client.About -> a Snapshot of each node
//
// It judges nothing: the checks that a Snapshot answers are in internal/subject/NAME/api, which join in
// internal/subject/suite/api. It creates, changes and deletes nothing.
package cluster

import (
	"errors"
	"fmt"
	"time"

	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/calico-probe/calico-probe/internal/serverclock"
	"github.com/calico-probe/calico-probe/probe"
)

// Client reads a cluster.
type Client struct {
	kube  *kubernetes.Clientset
	calls dynamic.Interface
	clock *serverclock.Clock

	groups   []schema.GroupVersion // of Calico's resources, the one to ask first before others
	CalicoIn []string              // the namespaces in which Calico's own pods are looked for

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
	return &Client{kube: kube, calls: calls, clock: clock, groups: groups, CalicoIn: Namespaces(calicoNamespace),
		limit: readLimit}, nil
}

// readLimit bounds a try of Read as a whole. What is read first may take its share of that:
// one list that hangs must not take the time of what is read after it.
const (
	readLimit  = 15 * time.Second
	firstShare = 8.0 / 15
)

// cached requests a list from the API server's cache, which is cheap and works while etcd has no leader.
var cached = metav1.ListOptions{ResourceVersion: "0"}

// Denied tells whether err is the API refusing for lack of rights.
func Denied(err error) bool { return apierrors.IsForbidden(err) || apierrors.IsUnauthorized(err) }

// ErrInEtcd is why the API has nothing of what Calico keeps in an etcd of its own.
var ErrInEtcd = errors.New(probe.GapEtcd)
