package cause

import (
	"strings"
	"testing"

	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/probe/facts"
)

// TestDenyAll requires the API server as the first cause if one policy blocks both the API server and the cluster DNS.
func TestDenyAll(t *testing.T) {
	t.Parallel()
	const policy = "GlobalNetworkPolicy default.deny-all"
	api := of(facts.CheckAPIPolicies, policy, probe.Found(probe.Fail, "the policy blocks these pods").
		With(facts.Policy, policy).With(facts.NamedPods, []string{"kube-system/coredns-1"}))
	for other, want := range map[string]string{policy: "policy-without-api " + policy + " high",
		"NetworkPolicy a/b": "dns-closed-by-policy NetworkPolicy a/b high"} {
		names := of(facts.CheckDNSPolicies, other, probe.Found(probe.Fail, "the policy selects the cluster DNS pods").
			With(facts.Policy, other).With(facts.DNSClosed, true))
		if got, _, _ := strings.Cut(causesOf(found(api, names)), ","); got != want {
			t.Errorf("%s: %q, want %q", other, got, want)
		}
	}
}
