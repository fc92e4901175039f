package cluster

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/probe/facts"
)

// TestTenantsLoadBalancer writes a node's address into the status of a tenant's Service: every right in a namespace
// covers services/status.
func TestTenantsLoadBalancer(t *testing.T) {
	t.Parallel()
	s := snapshot(node("node-a", "10.0.0.1", "10.0.0.1/24"))
	svc := corev1.Service{}
	svc.Namespace, svc.Name = "team-a", "mine"
	svc.Spec.Type, svc.Spec.ClusterIP = corev1.ServiceTypeLoadBalancer, "10.96.0.77"
	svc.Spec.Ports = []corev1.ServicePort{{Port: 10250, Protocol: corev1.ProtocolTCP}}
	svc.Status.LoadBalancer.Ingress = []corev1.LoadBalancerIngress{{IP: "10.0.0.1"}}
	s.allServices.Value = []corev1.Service{svc}
	wantFirst(t, ask(t, s, facts.CheckServiceClaims), probe.Warn, "team-a/mine")
}

// TestTenantsPools has a pod's annotation repeat what Calico's IPAM says of its pools.
func TestTenantsPools(t *testing.T) {
	t.Parallel()
	const says = saidSandbox + `plugin type="calico" failed (add): error parsing pool "no configured Calico pools": ` +
		`invalid CIDR address: no configured Calico pools`
	s := placedOn(eventSandbox, says, ofTenant(time.Hour, "ContainerCreating", "")...)
	fullPool(s, func(_, _, _ map[string]any) {})
	for _, r := range ask(t, s, facts.CheckPodsStart) {
		if r.Status == probe.Fail {
			t.Errorf("one tenant's annotation is a fault: %v", r)
		}
	}
}

// TestTenantsRegistry has a tenant's registry reply in the words of a node that is out of files or of disk.
func TestTenantsRegistry(t *testing.T) {
	t.Parallel()
	for _, words := range []string{"too many open files", "no space left on device"} {
		says := `Failed to pull image "evil.example/x:1": failed to resolve reference "evil.example/x:1": unexpected status ` +
			`from HEAD request to https://evil.example/v2/x/manifests/1: 500 ` + words
		for _, reason := range []string{"ErrImagePull", "CreateContainerError"} {
			got := ask(t, placedOn("", "", ofTenant(time.Hour, reason, says)...), facts.CheckPodsStart)
			wantFirst(t, got, probe.Info, "")
			if got[0].Facts[facts.Obstacle] != nil || got[0].Facts.Str(facts.Starts) == facts.StartsContainer {
				t.Errorf("%s, %s: %v", reason, words, got[0])
			}
		}
	}
}

// TestTenantsFamily has a pod request an address of the family that has no pool on the node.
func TestTenantsFamily(t *testing.T) {
	t.Parallel()
	for name, says := range map[string]string{
		"forged":     "no configured Calico pools for node node-a",
		"annotation": "failed to request IPv6 addresses: Assigned 0 out of 1 requested IPv6 addresses",
	} {
		t.Run(name, func(t *testing.T) {
			says := saidSandbox + `plugin type="calico" failed (add): ` + says
			s := placedOn(eventSandbox, says, ofTenant(time.Hour, "ContainerCreating", "")...)
			fullPool(s, func(_, _, _ map[string]any) {})
			got := ask(t, s, facts.CheckPodsStart)
			wantFirst(t, got, probe.Warn, "no enabled pool is for this node")
			s.placed.waiting.Value[2].pod.Namespace = "team-b"
			wantFirst(t, ask(t, s, facts.CheckPodsStart), probe.Fail, "no enabled pool is for this node")
		})
	}
}
