package cluster

import (
	"fmt"
	"testing"

	"github.com/calico-probe/calico-probe/probe"
)

// TestKubernetesDenies reads policies of Kubernetes: one without rules denies, whatever it selects by.
func TestKubernetesDenies(t *testing.T) {
	policy := func(spec string) string {
		return fmt.Sprintf(`{"kind":"NetworkPolicyList","apiVersion":"networking.k8s.io/v1","items":[{"metadata":{"name":"np","namespace":"default"},"spec":%s}]}`, spec)
	}
	for spec, want := range map[string]string{
		`{"podSelector":{},"policyTypes":["Ingress","Egress"]}`:                            "ingress,egress",
		`{"podSelector":{},"policyTypes":["Ingress"]}`:                                     "ingress",
		`{"podSelector":{},"ingress":[{}],"policyTypes":["Ingress"]}`:                      "",
		`{"podSelector":{},"ingress":[{"ports":[{"port":80}]}],"policyTypes":["Ingress"]}`: "",
	} {
		c := serverOf(t, map[string]string{"/apis/networking.k8s.io/v1/networkpolicies": policy(spec)}, nil)
		p := c.readPolicies(t.Context())
		if got := p.On("default", nil); got[probe.AttrDenies] != want || got[probe.AttrPolicy] == "" {
			t.Errorf("%s: %v, want %q; %v, %v", spec, got, want, p.Unread, p.Other)
		}
		c = serverOf(t, map[string]string{"/apis/networking.k8s.io/v1/networkpolicies": policy(spec),
			"/apis/policy.networking.k8s.io/v1alpha1/adminnetworkpolicies": `{"kind":"List","items":[{"metadata":{"name":"a"}}]}`}, nil)
		if got := c.readPolicies(t.Context()).On("default", nil); got[probe.AttrDenies] != "" {
			t.Errorf("beside an AdminNetworkPolicy: %v", got)
		}
	}
}
