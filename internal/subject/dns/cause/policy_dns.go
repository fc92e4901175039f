package cause

import (
	"fmt"
	"slices"
	"strings"

	"github.com/calico-probe/calico-probe/internal/diagnose"
	"github.com/calico-probe/calico-probe/internal/subject/dns"
	"github.com/calico-probe/calico-probe/internal/subject/evidence"
	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/probe/facts"
)

// policyWithoutDNS matches a policy that allows egress of pods, but not to the cluster DNS.
func policyWithoutDNS(f diagnose.Findings) []diagnose.Case {
	var out []diagnose.Case
	for _, r := range f.Of(facts.CheckDNSPolicies) {
		pods := diagnose.ListOf(r, facts.NamedPods)
		if r.Facts.Str(facts.Policy) == "" || len(pods) == 0 || r.Facts[facts.DNSClosed] == true {
			continue
		}
		out = append(out, keptFromDNS(f, r, pods))
	}
	return out
}

// keptFromDNS returns the case of a policy that blocks some pods from the DNS. The block is unintended if a rule denies
// the DNS, or was written for the DNS but misses it.
func keptFromDNS(f diagnose.Findings, r diagnose.Finding, pods []string) diagnose.Case {
	policy, how := r.Facts.Str(facts.Policy), r.Facts.Str(facts.DNSKept)
	namespace, pod, _ := strings.Cut(pods[0], "/")
	name, ofKubernetes := strings.CutPrefix(policy, "NetworkPolicy "+namespace+"/")
	port := 53.0
	if n, ok := r.Facts.Num(facts.DNSPort); ok {
		port = n
	}
	says, weight := "%s lets pods of {node} out to others and not to the cluster's DNS: %s", diagnose.Hint
	switch how {
	case "denied":
		says, weight = "%s denies pods of {node} the cluster's DNS by a rule of its own: %s", diagnose.Strong
	case "missed":
		says, weight = "the DNS rule of %s does not match cluster DNS over UDP, for pods of {node}: %s", diagnose.Strong
	case "shut":
		says = "%s does not let pods of {node} in to the cluster's DNS: %s"
	case "nowhere":
		says = "%s allows pods of {node} some egress and none to cluster DNS: %s"
	case "noegress":
		says = "%s denies pods of {node} all egress, cluster DNS included: %s"
	}
	c := diagnose.Case{
		About: policy, Says: fmt.Sprintf(says, policy, strings.Join(pods[:min(len(pods), 3)], ", ")),
		Args: map[string]diagnose.Arg{"namespace": diagnose.CheckedArg(namespace, diagnose.IsName(namespace), "NAMESPACE"),
			"pod":    diagnose.CheckedArg(pod, diagnose.IsName(pod), "POD"),
			"policy": diagnose.CheckedArg(name, ofKubernetes && diagnose.IsName(name), "POLICY"),
			"port":   diagnose.NumberArg(port)},
		For: diagnose.Clues(weight, []diagnose.Finding{r}),
	}
	switch how {
	case "denied":
		c.FixName = "denied"
	case "noegress":
		c.FixName = "no-egress"
	}
	if set := r.Facts.Str(facts.BySet); set != "" {
		c.Says = fmt.Sprintf("%s contains the cluster's DNS servers, and %s blocks them for pods on {node}: %s", set, policy,
			strings.Join(pods[:min(len(pods), 3)], ", "))
	}
	lost := unresolvedIn(f, pods)
	switch resolved := diagnose.Keep(f.Of(dns.DNSCluster.ID), func(d diagnose.Finding) bool {
		return d.Status == probe.OK && slices.Contains(pods, d.From) && strings.HasSuffix(d.Target, " udp")
	}); {
	case len(lost) > 0:
		c.For = append(c.For, diagnose.Hints(lost)...)
		c.Covers = append(evidence.NotItsOwn(f, lost), diagnose.Covers(dns.DNSExternal.ID)...)
	case len(resolved) > 0:
		c.Against = diagnose.Suggests(resolved[:1])
	}
	return c
}

// unresolvedIn returns the failed queries from inside some pods, if the node itself got an answer from the same server.
func unresolvedIn(f diagnose.Findings, pods []string) []diagnose.Finding {
	return diagnose.Keep(f.Bad(dns.DNSCluster.ID), func(d diagnose.Finding) bool {
		return slices.Contains(pods, d.From) && slices.ContainsFunc(f.Of(dns.DNSCluster.ID), func(o diagnose.Finding) bool {
			return o.From == "" && o.Target == d.Target && o.Status == probe.OK
		})
	})
}
