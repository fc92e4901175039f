package cluster

import (
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/calico-probe/calico-probe/internal/netpolicy"
	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/probe/facts"
)

// ofTenant are pods of one namespace that wait for their network.
func ofTenant(age time.Duration, reason, says string) []corev1.Pod {
	var out []corev1.Pod
	for i := range 3 {
		p := hanging(fmt.Sprintf("app-%d", i), age, reason, says)
		p.Namespace = "team-a"
		out = append(out, p)
	}
	return out
}

// TestOneTenant wants no fault from what one tenant can write: annotations, which Calico's plugin repeats in
// its errors, specs, and events, which who may create them can write in the kubelet's name.
func TestOneTenant(t *testing.T) {
	const calico = saidSandbox + `plugin type="calico" failed (add): `
	for name, says := range map[string]string{
		"pool":             calico + `error parsing pool "x": invalid CIDR address: x`,
		"pool, full files": calico + `error parsing pool "too many open files": invalid CIDR address: too many open files`,
		"address":          calico + `"too many open files" isn't a IPv4 address`,
		"addresses":        calico + `failed to parse 'error getting ClusterInformation: connection is unauthorized: Unauthorized' as JSON: invalid`,
		"annotation":       calico + `failed to parse IPs [\"x\"] for annotation "cni.projectcalico.org/ipAddrs": connection is unauthorized: Unauthorized`,
		"quotes":           calico + `bandwidth "\"open /run/x: no space left on device": no number`,
		"no address":       saidFull,
		"multus":           saidSandbox + `plugin type="multus" name="m" failed (add): [team-a/app:x]: error adding container to network "x": too many open files`,
		"multus, calico":   saidSandbox + `plugin type="multus" name="m" failed (add): [team-a/app:x]: error getting ClusterInformation: connection is unauthorized: Unauthorized`,
		"unknown":          calico + `something else`,
		"hangs":            `Failed to create pod sandbox: rpc error: code = DeadlineExceeded desc = context deadline exceeded`,
	} {
		t.Run(name, func(t *testing.T) {
			got := ask(t, placedOn(eventSandbox, says, ofTenant(time.Hour, "ContainerCreating", "")...), facts.CheckPodsStart)
			wantFirst(t, got, probe.Warn, "")
		})
	}
	wantFirst(t, ask(t, placedOn("", "", ofTenant(time.Hour, "", "")...), facts.CheckPodsStart), probe.Warn,
		"does not say why")
}

// TestForgedEvent wants an event in the node's words believed of one tenant only as long as no pod of another namespace
// has got what that event says nobody gets.
func TestForgedEvent(t *testing.T) {
	for name, c := range map[string]struct {
		reason, says string
		change       func(*corev1.Pod) // of the pod of the other namespace
		want         probe.Status
	}{
		"another has started":       {eventSandbox, saidToken, func(*corev1.Pod) {}, probe.Warn},
		"another, no configuration": {eventNetwork, saidNoCNI, func(*corev1.Pod) {}, probe.Warn},
		"another has started earlier": {eventSandbox, saidToken,
			func(p *corev1.Pod) { p.Status.StartTime = new(ago(time.Hour)) }, probe.Fail},
		"another of the host's": {eventSandbox, saidToken,
			func(p *corev1.Pod) { p.Spec.HostNetwork = true }, probe.Fail},
		"another of the tenant's": {eventSandbox, saidToken, func(p *corev1.Pod) { p.Namespace = "team-a" }, probe.Fail},
		"another has not begun": {eventSandbox, saidToken,
			func(p *corev1.Pod) { p.Status.ContainerStatuses = nil }, probe.Fail},
	} {
		t.Run(name, func(t *testing.T) {
			other := hanging("well", time.Minute, "", "")
			other.Status.Phase, other.Status.StartTime = corev1.PodRunning, new(ago(time.Minute))
			other.Status.ContainerStatuses = []corev1.ContainerStatus{{State: corev1.ContainerState{
				Running: &corev1.ContainerStateRunning{}}}}
			c.change(&other)
			s := placedOn(c.reason, c.says, append(ofTenant(5*time.Minute, "ContainerCreating", ""), other)...)
			wantFirst(t, ask(t, s, facts.CheckPodsStart), c.want, "")
		})
	}
}

// TestForgedEventRenewed has a tenant delete and recreate the pod of a forged event, after which nothing else started.
func TestForgedEventRenewed(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		age, other time.Duration // how long the tenant's pod waits, and since when another runs
		want       probe.Status
	}{
		"just recreated":                     {25 * time.Second, time.Hour, probe.Warn},
		"just recreated, another has begun":  {25 * time.Second, time.Minute, probe.Warn},
		"recreated after another has begun":  {3 * time.Minute, 4 * time.Minute, probe.Warn},
		"waiting, and nothing else has come": {3 * time.Minute, time.Hour, probe.Fail},
	} {
		t.Run(name, func(t *testing.T) {
			well := hanging("well", c.other, "", "")
			well.Namespace, well.Status.Phase, well.Status.StartTime = "team-b", corev1.PodRunning, new(ago(c.other))
			well.Status.ContainerStatuses = []corev1.ContainerStatus{{State: corev1.ContainerState{
				Running: &corev1.ContainerStateRunning{}}}}
			s := placedOn(eventSandbox, saidToken, append(ofTenant(c.age, "ContainerCreating", ""), well)...)
			wantFirst(t, ask(t, s, facts.CheckPodsStart), c.want, "")
		})
	}
	own := ofTenant(25*time.Second, "ContainerCreating", "")
	own[0].Namespace = "kube-system"
	wantFirst(t, ask(t, placedOn(eventSandbox, saidToken, own...), facts.CheckPodsStart), probe.Fail, "")
}

// TestOwnNetwork wants a pod whose owner may shape its network told from others, and passed over where there is
// another.
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

// TestTwoNamespaces wants what two namespaces agree about to be a fault.
func TestTwoNamespaces(t *testing.T) {
	pods := ofTenant(time.Hour, "ContainerCreating", "")
	pods[2].Namespace = "team-b"
	got := ask(t, placedOn(eventSandbox, saidFull, pods...), facts.CheckPodsStart)
	wantFirst(t, got, probe.Fail, "")
	if got[0].Facts[facts.Corroborated] != true {
		t.Errorf("%v", got[0])
	}
}
