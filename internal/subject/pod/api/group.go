package api

import (
	"regexp"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/calico-probe/calico-probe/internal/cluster"
	"github.com/calico-probe/calico-probe/probe/facts"
)

// How long a pod may wait before the check reports it. The kubelet retries a sandbox after about ten seconds, so a pod
// that has waited twice as long has failed at least twice.
const (
	waitReported   = 20 * time.Second // if the kubelet reports what failed
	waitNoAddress  = 10 * time.Second // if IPAM has no address: a retry does not change that
	waitUnreported = time.Minute      // if the kubelet reports nothing
	waitPulling    = 10 * time.Minute // for an image that is being pulled
	waitCalico     = time.Minute      // after calico-node became ready: the kubelet then retries pods that waited for it
	maxGroups      = 8                // maximum number of groups of pods in a report
	maxImages      = 8                // maximum number of images and registries listed for one group
)

// group has the pods that do not start for the same reason.
type group struct {
	starts  string // one of the words of the fact Starts
	plugin  string
	message string // of the kubelet or runtime, without names and numbers that differ between pods
	sandbox facts.Sandbox
	refusal string // of a registry
	pods    []cluster.Waiter
}

// isCorroborated reports whether more than one tenant shows the problem: the pods are in two namespaces, or in a system
// namespace. A single tenant can forge it with specs, annotations and events.
func (g group) isCorroborated(s *cluster.Snapshot) bool {
	return isCorroborated(s, g.pods, func(w cluster.Waiter) string { return w.Pod.Namespace })
}

func isCorroborated[T any](s *cluster.Snapshot, pods []T, namespace func(T) string) bool {
	first := namespace(pods[0])
	return slices.ContainsFunc(pods, func(p T) bool {
		of := namespace(p)
		return of != first || of == metav1.NamespaceSystem || slices.Contains(s.CalicoIn, of)
	})
}

// Patterns that distinguish other messages of the kubelet and the runtime.
var (
	runtimeHangs = regexp.MustCompile(`deadline exceeded|is reserved for|no space left|failed to create shim`)
	diskFull     = regexp.MustCompile(`no space left on device`)
	ownVolume    = regexp.MustCompile(`(configmap|secret|persistentvolumeclaim) .*not found|references non-existent`)
)
