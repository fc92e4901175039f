package api

import (
	"regexp"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/calico-probe/calico-probe/internal/cluster"
	"github.com/calico-probe/calico-probe/probe/facts"
)

// How long a pod may take to start before something is made of it. The kubelet tries a sandbox again
// after some ten seconds, so one that fails still has failed at least twice.
const (
	settled     = 20 * time.Second // where the kubelet says what failed
	exhausted   = 10 * time.Second // where IPAM has no address, which the next try does not change
	unsaid      = time.Minute      // where it says nothing
	pullingLong = 10 * time.Minute // of an image that is on its way
	calicoFresh = time.Minute      // since calico-node became ready: pods that waited for it are tried again
	groupsMost  = 8                // groups of pods that are told apart
	imagesMost  = 8                // images and registries of one group that are named
)

// A group is the pods that do not start for one reason.
type group struct {
	starts  string // one of the words of the fact Starts
	plugin  string
	message string // without the names and numbers of one pod
	sandbox facts.Sandbox
	refusal string // of a registry
	pods    []cluster.Waiter
}

// corroborated reports whether no single tenant can have caused what is said of a group: its pods are of two
// namespaces, or of one of the cluster's own.
func (g group) corroborated(s *cluster.Snapshot) bool {
	return corroborated(s, g.pods, func(w cluster.Waiter) string { return w.Pod.Namespace })
}

func corroborated[T any](s *cluster.Snapshot, pods []T, namespace func(T) string) bool {
	first := namespace(pods[0])
	return slices.ContainsFunc(pods, func(p T) bool {
		of := namespace(p)
		return of != first || of == metav1.NamespaceSystem || slices.Contains(s.CalicoIn, of)
	})
}

// What the kubelet's and the runtime's other messages are told apart by.
var (
	runtimeHangs = regexp.MustCompile(`deadline exceeded|is reserved for|no space left|failed to create shim`)
	diskFull     = regexp.MustCompile(`no space left on device`)
	volumeOwn    = regexp.MustCompile(`(configmap|secret|persistentvolumeclaim) .*not found|references non-existent`)
)
