package api

import (
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/calico-probe/calico-probe/internal/cluster"
	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/probe/facts"
)

// withConstraints adds what hinders calico-node's container: a CPU limit, and missing privileges.
func withConstraints(r probe.Result, c *corev1.Container) probe.Result {
	if limit, has := c.Resources.Limits[corev1.ResourceCPU]; has {
		r = r.With(facts.CPULimit, limit.MilliValue())
	}
	sec := c.SecurityContext
	if sec != nil && sec.Privileged != nil && *sec.Privileged {
		return r
	}
	isNetAdmin := func(name corev1.Capability) bool {
		return name == "NET_ADMIN" || name == "CAP_NET_ADMIN" || name == "ALL"
	}
	if sec == nil || sec.Capabilities == nil || !slices.ContainsFunc(sec.Capabilities.Add, isNetAdmin) {
		r = r.With(facts.Unprivileged, true)
	}
	return r
}

// tokenFolder is where the API server mounts the token of a pod's service account.
const tokenFolder = "/var/run/secrets/kubernetes.io/serviceaccount"

// lacksToken reports whether no container of a calico-node with the Kubernetes datastore has a token or a
// kubeconfig. The API server mounts a token into each container unless that is disabled.
func lacksToken(s *cluster.Snapshot, pod *corev1.Pod) bool {
	if len(s.Etcd.Value) > 0 || s.CalicoEnv("KUBECONFIG") != "" || pod.UID == "" {
		return false
	}
	has := func(c corev1.Container) bool {
		return slices.ContainsFunc(c.VolumeMounts, func(m corev1.VolumeMount) bool { return m.MountPath == tokenFolder })
	}
	return !slices.ContainsFunc(slices.Concat(pod.Spec.InitContainers, pod.Spec.Containers), has)
}
