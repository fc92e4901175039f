package cause

import (
	"fmt"
	"slices"
	"strings"

	"github.com/calico-probe/calico-probe/internal/diagnose"
	"github.com/calico-probe/calico-probe/internal/subject/evidence"
	"github.com/calico-probe/calico-probe/probe/facts"
)

// policyWithoutAPI matches a policy that blocks system pods from the API server.
func policyWithoutAPI(f diagnose.Findings) []diagnose.Case {
	var out []diagnose.Case
	for _, r := range f.Failed(facts.CheckAPIPolicies) {
		policy, pods := r.Facts.Str(facts.Policy), diagnose.ListOf(r, facts.NamedPods)
		if policy == "" || len(pods) == 0 {
			continue
		}
		namespace, pod, _ := strings.Cut(pods[0], "/")
		c := diagnose.Case{About: policy,
			Says: fmt.Sprintf("%s blocks the cluster's own pods from the API server: %s", policy,
				strings.Join(pods[:min(len(pods), 3)], ", ")),
			Args: map[string]diagnose.Arg{"namespace": diagnose.CheckedArg(namespace, diagnose.IsName(namespace), "NAMESPACE"),
				"pod": diagnose.CheckedArg(pod, diagnose.IsName(pod), "POD")},
			For: diagnose.Suggests([]diagnose.Finding{r}),
		}
		closed := diagnose.Keep(f.Of(facts.CheckDNSPolicies), func(d diagnose.Finding) bool {
			return d.Facts.Str(facts.Policy) == policy && diagnose.Holds(d.Facts, facts.DNSClosed, true)
		})
		if len(closed) > 0 {
			c.Says += "; it also blocks queries to the cluster's DNS"
			c.For = append(c.For, diagnose.Hints(closed[:1])...)
			c.Covers = append([]diagnose.Cover{{Check: facts.CheckDNSPolicies, About: closed[0].Target}}, evidence.NamesFail...)
		}
		var down []diagnose.Finding
		if slices.ContainsFunc(pods, func(name string) bool { return strings.Contains(name, "dns") }) {
			down = f.Bad(facts.CheckDNSService)
			if len(down) > 0 {
				c.Covers = slices.Concat(c.Covers, diagnose.Covers(facts.CheckDNSService), evidence.NamesFail)
			}
		}
		down = append(down, diagnose.Keep(f.Bad(facts.CheckControllers), func(r diagnose.Finding) bool {
			return slices.Contains(pods, r.Target)
		})...)
		c.For = append(c.For, diagnose.Hints(down)...)
		out = append(out, c)
	}
	return out
}
