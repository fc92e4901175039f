package api

import (
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/calico-probe/calico-probe/internal/cluster"
	"github.com/calico-probe/calico-probe/internal/cluster/clustertest"
	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/probe/facts"
)

// TestTenantsPools has a pod's annotation contain IPAM's message about missing pools.
func TestTenantsPools(t *testing.T) {
	t.Parallel()
	const says = saidSandbox + `plugin type="calico" failed (add): error parsing pool "no configured Calico pools": ` +
		`invalid CIDR address: no configured Calico pools`
	s := clustertest.PlacedOn(cluster.EventSandbox, says, ofTenant(time.Hour, "ContainerCreating", "")...)
	fullPool(s, func(_, _, _ map[string]any) {})
	for _, r := range ask(t, s, facts.CheckPodsStart) {
		if r.Status == probe.Fail {
			t.Errorf("one tenant's annotation is a fault: %v", r)
		}
	}
}

// TestTenantsRegistry has a tenant's registry reply with the errors of a node without free files or disk space.
func TestTenantsRegistry(t *testing.T) {
	t.Parallel()
	for _, words := range []string{"too many open files", "no space left on device"} {
		says := `Failed to pull image "evil.example/x:1": failed to resolve reference "evil.example/x:1": unexpected status ` +
			`from HEAD request to https://evil.example/v2/x/manifests/1: 500 ` + words
		for _, reason := range []string{"ErrImagePull", "CreateContainerError"} {
			got := ask(t, clustertest.PlacedOn("", "", ofTenant(time.Hour, reason, says)...), facts.CheckPodsStart)
			clustertest.WantFirst(t, got, probe.Info, "")
			if got[0].Facts[facts.Obstacle] != nil || got[0].Facts.Str(facts.Starts) == facts.StartsContainer {
				t.Errorf("%s, %s: %v", reason, words, got[0])
			}
		}
	}
}

// TestTenantsFamily has a pod request an address of the family without a pool on the node.
func TestTenantsFamily(t *testing.T) {
	t.Parallel()
	for name, says := range map[string]string{
		"forged":     "no configured Calico pools for node node-a",
		"annotation": "failed to request IPv6 addresses: Assigned 0 out of 1 requested IPv6 addresses",
	} {
		t.Run(name, func(t *testing.T) {
			says := saidSandbox + `plugin type="calico" failed (add): ` + says
			s := clustertest.PlacedOn(cluster.EventSandbox, says, ofTenant(time.Hour, "ContainerCreating", "")...)
			fullPool(s, func(_, _, _ map[string]any) {})
			got := ask(t, s, facts.CheckPodsStart)
			clustertest.WantFirst(t, got, probe.Warn, "no enabled pool serves this node")
			s.Placed.Waiting.Value[2].Pod.Namespace = "team-b"
			clustertest.WantFirst(t, ask(t, s, facts.CheckPodsStart), probe.Fail, "no enabled pool serves this node")
		})
	}
}

// ofTenant returns waiting pods of one namespace.
func ofTenant(age time.Duration, reason, says string) []corev1.Pod {
	var out []corev1.Pod
	for i := range 3 {
		p := clustertest.Hanging(fmt.Sprintf("app-%d", i), age, reason, says)
		p.Namespace = "team-a"
		out = append(out, p)
	}
	return out
}

// TestOneTenant expects no fault from anything that a single tenant can write: annotations (Calico's plugin quotes them
// in its errors), specs, and events (anyone allowed to create events can forge the kubelet's).
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
			got := ask(t, clustertest.PlacedOn(cluster.EventSandbox, says, ofTenant(time.Hour, "ContainerCreating", "")...),
				facts.CheckPodsStart)
			clustertest.WantFirst(t, got, probe.Warn, "")
		})
	}
	clustertest.WantFirst(t, ask(t, clustertest.PlacedOn("", "", ofTenant(time.Hour, "", "")...), facts.CheckPodsStart),
		probe.Warn,
		"reports no reason")
}

// TestForgedEvent trusts an event about one tenant's pods only until a pod of another namespace has started: that
// disproves the event.
func TestForgedEvent(t *testing.T) {
	for name, c := range map[string]struct {
		reason, says string
		change       func(*corev1.Pod) // of the pod of the other namespace
		want         probe.Status
	}{
		"another has started":       {cluster.EventSandbox, saidToken, func(*corev1.Pod) {}, probe.Warn},
		"another, no configuration": {cluster.EventNetwork, saidNoCNI, func(*corev1.Pod) {}, probe.Warn},
		"another has started earlier": {cluster.EventSandbox, saidToken,
			func(p *corev1.Pod) { p.Status.StartTime = new(clustertest.Ago(time.Hour)) }, probe.Fail},
		"another of the host's": {cluster.EventSandbox, saidToken,
			func(p *corev1.Pod) { p.Spec.HostNetwork = true }, probe.Fail},
		"another of the tenant's": {cluster.EventSandbox, saidToken, func(p *corev1.Pod) { p.Namespace = "team-a" },
			probe.Fail},
		"another has not begun": {cluster.EventSandbox, saidToken,
			func(p *corev1.Pod) { p.Status.ContainerStatuses = nil }, probe.Fail},
	} {
		t.Run(name, func(t *testing.T) {
			other := clustertest.Hanging("well", time.Minute, "", "")
			other.Status.Phase, other.Status.StartTime = corev1.PodRunning, new(clustertest.Ago(time.Minute))
			other.Status.ContainerStatuses = []corev1.ContainerStatus{{State: corev1.ContainerState{
				Running: &corev1.ContainerStateRunning{}}}}
			c.change(&other)
			s := clustertest.PlacedOn(c.reason, c.says, append(ofTenant(5*time.Minute, "ContainerCreating", ""), other)...)
			clustertest.WantFirst(t, ask(t, s, facts.CheckPodsStart), c.want, "")
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
		"recreated after another has begun":  {3 * time.Minute, 210 * time.Second, probe.Warn},
		"waiting for long after another":     {5 * time.Minute, 6 * time.Minute, probe.Fail},
		"waiting, and nothing else has come": {3 * time.Minute, time.Hour, probe.Fail},
	} {
		t.Run(name, func(t *testing.T) {
			well := clustertest.Hanging("well", c.other, "", "")
			well.Namespace, well.Status.Phase, well.Status.StartTime = "team-b", corev1.PodRunning, new(clustertest.Ago(c.other))
			well.Status.ContainerStatuses = []corev1.ContainerStatus{{State: corev1.ContainerState{
				Running: &corev1.ContainerStateRunning{}}}}
			s := clustertest.PlacedOn(cluster.EventSandbox, saidToken, append(ofTenant(c.age, "ContainerCreating", ""), well)...)
			clustertest.WantFirst(t, ask(t, s, facts.CheckPodsStart), c.want, "")
		})
	}
	own := ofTenant(25*time.Second, "ContainerCreating", "")
	own[0].Namespace = "kube-system"
	clustertest.WantFirst(t, ask(t, clustertest.PlacedOn(cluster.EventSandbox, saidToken, own...), facts.CheckPodsStart),
		probe.Fail, "")
}

// TestTwoNamespaces expects a fault if pods of two namespaces show the same problem.
func TestTwoNamespaces(t *testing.T) {
	pods := ofTenant(time.Hour, "ContainerCreating", "")
	pods[2].Namespace = "team-b"
	got := ask(t, clustertest.PlacedOn(cluster.EventSandbox, saidFull, pods...), facts.CheckPodsStart)
	clustertest.WantFirst(t, got, probe.Fail, "")
	if got[0].Facts[facts.Corroborated] != true {
		t.Errorf("%v", got[0])
	}
}
