package cluster

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
)

// TestAccountOfTheToken requires the account for which calico-node is configured to create tokens.
func TestAccountOfTheToken(t *testing.T) {
	s := ofCalicoNode()
	if got := s.tokenFor(); got != "calico-cni-plugin" {
		t.Error(got)
	}
	s.Calico.Value.Spec.Containers[0].Env = []corev1.EnvVar{{Name: "CALICO_CNI_SERVICE_ACCOUNT", Value: "calico-node"}}
	if got := s.tokenFor(); got != "calico-node" {
		t.Error(got)
	}
	if got := accountsOf(s); len(got) != 1 {
		t.Errorf("one account twice: %v", got)
	}
}
