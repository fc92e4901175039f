// Package cluster reads the Kubernetes API:
//
//	NewClient -> Client.Read -> Snapshot (one node and its cluster) -> Targets (what a probe checks)
//	          -> Client.ReadAll -> Survey (the cluster) -> Survey.Of, Client.About -> a Snapshot of each node
//
// The package does not judge anything. The API checks, which evaluate a Snapshot, are in internal/subject/NAME/api, and
// internal/subject/suite/api lists them. The package does not create, change or delete anything: package injector does.
package cluster

import (
	"errors"
	"fmt"
	"time"

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

	groups   []schema.GroupVersion // groups of Calico's resources, the preferred group first
	CalicoIn []string              // trust calico-node only in these namespaces

	permissions *permissionCache // nil = query each time

	limit time.Duration // of the first try of Read and ReadAll
	// Slow is called if the API server accepts a connection but does not answer. It gets the time waited and the time
	// limit of the second try. nil = not called.
	Slow func(waited, more time.Duration)
}

// NewClient returns a Client for config, which it does not change. It trusts Calico's pods only in calicoNamespace. If
// that is "", it trusts them in the usual namespaces (Namespaces).
func NewClient(config *rest.Config, calicoNamespace string) (*Client, error) {
	clock := &serverclock.Clock{}
	own := rest.CopyConfig(config)
	own.Wrap(clock.Transport)
	own.QPS, own.Burst = max(own.QPS, 50), max(own.Burst, 100) // a few dozen small reads, only once
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

// readLimit is the time limit for one try of Read. The first lists may use only a share of it: a hanging list must not
// use up the time for later lists.
const (
	readLimit  = 15 * time.Second
	firstShare = 8.0 / 15
)

// cached requests a list from the API server's cache, which is cheap and works while etcd has no leader.
var cached = metav1.ListOptions{ResourceVersion: "0"}

// Denied reports whether the API server refused a request because a permission is missing.
func Denied(err error) bool { return apierrors.IsForbidden(err) || apierrors.IsUnauthorized(err) }

// ErrInEtcd is the error for data that is not in the API because Calico stores it in its own etcd.
var ErrInEtcd = errors.New(probe.GapEtcd)
