package api

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/calico-probe/calico-probe/internal/cluster/clustertest"
	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/probe/facts"
)

// TestConstraints expects facts about missing privileges, a CPU limit and a missing token of calico-node's container.
func TestConstraints(t *testing.T) {
	t.Parallel()
	privileged := &corev1.SecurityContext{Privileged: new(true)}
	for name, c := range map[string]struct {
		set          func(*corev1.Pod)
		unprivileged any
		limit        any
		noToken      any
	}{
		"as in the manifest": {func(*corev1.Pod) {}, nil, nil, nil},
		"not privileged": {func(p *corev1.Pod) {
			p.Spec.Containers[0].SecurityContext = &corev1.SecurityContext{Privileged: new(false)}
		}, true, nil, nil},
		"no security context": {func(p *corev1.Pod) { p.Spec.Containers[0].SecurityContext = nil }, true, nil, nil},
		"by the operator, not privileged": {func(p *corev1.Pod) {
			p.Spec.Containers[0].SecurityContext = &corev1.SecurityContext{
				Capabilities: &corev1.Capabilities{Add: []corev1.Capability{"NET_RAW", "NET_ADMIN"}},
			}
		}, nil, nil, nil},
		"a CPU limit": {func(p *corev1.Pod) {
			limits := corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("15m")}
			p.Spec.Containers[0].Resources.Limits = limits
		}, nil, int64(15), nil},
		"no token": {func(p *corev1.Pod) { p.Spec.Containers[0].VolumeMounts = nil }, nil, nil, true},
		"near: no token by the API": {func(p *corev1.Pod) {
			p.Spec.Containers[0].VolumeMounts, p.UID = nil, ""
		}, nil, nil, nil},
		"near: a kubeconfig instead": {func(p *corev1.Pod) {
			p.Spec.Containers[0].VolumeMounts = nil
			p.Spec.Containers[0].Env = append(p.Spec.Containers[0].Env, corev1.EnvVar{Name: "KUBECONFIG", Value: "/etc/k"})
		}, nil, nil, nil},
	} {
		s := clustertest.OfCalicoNode()
		s.Calico.Value.UID = "1"
		s.Calico.Value.Spec.Containers[0].SecurityContext = privileged
		s.Calico.Value.Spec.Containers[0].VolumeMounts = []corev1.VolumeMount{{MountPath: tokenFolder}}
		c.set(s.Calico.Value)
		var got probe.Result
		for _, r := range ask(t, s, facts.CheckCalicoPod) {
			got = r
		}
		if got.Facts[facts.Unprivileged] != c.unprivileged || got.Facts[facts.CPULimit] != c.limit ||
			got.Facts[facts.NoToken] != c.noToken {
			t.Errorf("%s: %+v", name, got)
		}
	}
}
