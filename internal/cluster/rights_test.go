package cluster

import (
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
)

// ofCalicoNode is a node with unknown readiness, on which calico-node v3.32.1 runs with its account.
func ofCalicoNode() *Snapshot {
	s := snapshot(node("a", "10.0.0.1", "10.0.0.1/24"))
	s.Calico.Value = calico(3)
	s.Calico.Value.Namespace, s.Calico.Value.Spec.ServiceAccountName = "kube-system", "calico-node"
	s.Calico.Value.Spec.InitContainers = []corev1.Container{{Name: "install-cni"}}
	s.Calico.Value.Spec.Containers[0].Image = "quay.io/calico/node:v3.32.1"
	s.Calico.Value.Status.Conditions = nil
	return s
}

// TestNeeded requires exactly the kinds that each version of Felix lists before it is ready (felixsyncer in its
// sources).
func TestNeeded(t *testing.T) {
	t.Parallel()
	served := []string{"tiers", "stagednetworkpolicies", "ipamblocks"}
	for version, want := range map[string]string{
		"v3.21.0": "ipamblocks", "v3.22.0": "endpointslices ipamblocks", "v3.28.2": "endpointslices services ipamblocks",
		"v3.29.0": "endpointslices services ipamblocks tiers",
		"v3.30.0": "endpointslices services ipamblocks tiers stagednetworkpolicies",
		"v3.32.1": "endpointslices services ipamblocks tiers stagednetworkpolicies",
	} {
		s := ofCalicoNode()
		s.Calico.Value.Spec.Containers[0].Image = "quay.io/calico/node:" + version
		var got []string
		for _, a := range s.needed("crd.projectcalico.org", served) {
			if a.Verb == "list" && slices.Contains(append(served, "endpointslices", "services"), a.Resource) {
				got = append(got, a.Resource)
			}
		}
		if text := strings.Join(got, " "); text != want {
			t.Errorf("%s: %s, want %s", version, text, want)
		}
	}
}
