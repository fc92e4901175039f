package cluster

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/calico-probe/calico-probe/internal/netpolicy"
	"github.com/calico-probe/calico-probe/probe"
)

// TestOwnNetwork requires that a pod whose owner may shape its network is recognized, and used only if there is no
// other pod.
func TestOwnNetwork(t *testing.T) {
	well := corev1.Pod{}
	well.Namespace, well.Name, well.CreationTimestamp = "team-b", "well", ago(time.Minute)
	well.Status.PodIP, well.Status.PodIPs = "10.244.1.9", []corev1.PodIP{{IP: "10.244.1.9"}}
	well.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}
	adds := func(held corev1.Capability) corev1.Container {
		return corev1.Container{SecurityContext: &corev1.SecurityContext{Capabilities: &corev1.Capabilities{
			Add: []corev1.Capability{"CHOWN", held}}}}
	}
	for want, change := range map[string]func(*corev1.Pod){
		"":          func(p *corev1.Pod) { p.Spec.Containers = []corev1.Container{adds("NET_RAW"), {}} },
		"NET_ADMIN": func(p *corev1.Pod) { p.Spec.InitContainers = []corev1.Container{adds("CAP_NET_ADMIN")} },
		"ALL":       func(p *corev1.Pod) { p.Spec.Containers = []corev1.Container{adds("all")} },
		"privileged": func(p *corev1.Pod) {
			p.Spec.EphemeralContainers = []corev1.EphemeralContainer{{EphemeralContainerCommon: corev1.EphemeralContainerCommon{
				SecurityContext: &corev1.SecurityContext{Privileged: new(true)}}}}
		},
		"sysctls": func(p *corev1.Pod) {
			p.Spec.SecurityContext = &corev1.PodSecurityContext{Sysctls: []corev1.Sysctl{{Name: "net.ipv4.ip_local_port_range"}}}
		},
		"kubernetes.io/egress-bandwidth": func(p *corev1.Pod) {
			p.Annotations = map[string]string{"kubernetes.io/egress-bandwidth": "1k"}
		},
	} {
		older := *well.DeepCopy()
		older.Namespace, older.Name, older.CreationTimestamp = "team-a", "older", ago(time.Hour)
		change(&older)
		if got := ownNetwork(&older); got != want {
			t.Errorf("%q, want %q", got, want)
		}
		first := map[bool]string{true: "older", false: "well"}[want == ""]
		if got := pingable([]corev1.Pod{older, well}, 1, netpolicy.Policies{}); len(got) != 1 || got[0].Name != first {
			t.Errorf("%s: asked from %v, not %s", want, got, first)
		}
		target := podTargets(probe.KindLocal, []corev1.Pod{older}, netpolicy.Policies{})[0]
		status := map[bool]probe.Status{true: probe.Fail, false: probe.Warn}[want == ""]
		if got := probe.Found(probe.Fail, "no route").Under(target, probe.DeniesEgress); got.Status != status {
			t.Errorf("%s: %s, not %s", want, got.Status, status)
		}
		older.Namespace = "kube-system"
		if got := ownNetwork(&older); got != "" {
			t.Errorf("one of the cluster's own: %q", got)
		}
	}
}
