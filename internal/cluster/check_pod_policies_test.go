package cluster

import (
	"errors"
	"testing"

	networkingv1 "k8s.io/api/networking/v1"

	"github.com/calico-probe/calico-probe/internal/netpolicy"
	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/probe/facts"
)

// TestPodPolicies wants each policy that holds for a pod of the node named with those pods.
func TestPodPolicies(t *testing.T) {
	t.Parallel()
	s := withDNS()
	wantFirst(t, ask(t, s, facts.CheckPodPolicies), probe.OK, "no policy selects any of 1 pod")
	s.policies.List = []netpolicy.Policy{policyOf(t, "shop", "deny", "{}", networkingv1.PolicyTypeEgress)}
	wantFirst(t, ask(t, s, facts.CheckPodPolicies), probe.Info, "it selects 1 of 1 pod (shop/web), and denies all egress of the first of them")
	s.policies.List = []netpolicy.Policy{OfCalico(t, "threatfeed",
		"{selector: app == 'web', egress: [{action: Deny, destination: {selector: feed == 'x'}}, {action: Allow}]}")}
	other := s.placed.pods.Value[0].DeepCopy()
	other.Namespace, other.Labels = "kube-system", nil
	s.placed.pods.Value = append(s.placed.pods.Value, *other)
	wantFirst(t, ask(t, s, facts.CheckPodPolicies), probe.Info, "it may block traffic of 1 of 2 pods (shop/web)")
	s.policies.Unread = errors.New("gone")
	wantFirst(t, ask(t, s, facts.CheckPodPolicies), probe.Info, "is not known")
}
