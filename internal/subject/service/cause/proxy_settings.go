package cause

import (
	"fmt"
	"slices"

	"github.com/calico-probe/calico-probe/internal/diagnose"
	"github.com/calico-probe/calico-probe/internal/subject/evidence"
	"github.com/calico-probe/calico-probe/internal/subject/firewall"
	"github.com/calico-probe/calico-probe/internal/subject/pod"
	"github.com/calico-probe/calico-probe/internal/subject/service"
	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/probe/facts"
	"github.com/calico-probe/calico-probe/probe/logs"
)

// proxySet is what kube-proxy says of its settings, where it has the fact.
func proxySet(f diagnose.Findings, key probe.Fact) []diagnose.Finding {
	return diagnose.Keep(f.Of(service.KubeProxyHealth.ID), func(r diagnose.Finding) bool {
		return r.Target == service.TargetProxySettings && r.Facts.Str(key) != ""
	})
}

// servicesThat are the API's lists of Services with a fact.
func servicesThat(f diagnose.Findings, about string) []diagnose.Finding {
	return diagnose.Keep(f.Of(facts.CheckServicePolicies), func(r diagnose.Finding) bool {
		return r.Target == about && r.Facts.Str(facts.Services) != ""
	})
}

// kubeProxyOtherNode is a kube-proxy that takes its node for another.
func kubeProxyOtherNode(f diagnose.Findings) []diagnose.Case {
	set, lines := proxySet(f, service.FactProxyNode), evidence.KubeSays(f, "kube-proxy", logs.SaysNodeNotFound)
	if len(set)+len(lines) == 0 {
		return nil
	}
	local := servicesThat(f, facts.ServicesLocal)
	c := diagnose.Case{For: slices.Concat(diagnose.Suggests(slices.Concat(set, lines)), diagnose.Hints(local)),
		Covers: diagnose.Covers(logs.KubeLog.ID, service.KubeProxyHealth.ID)}
	if len(set) > 0 {
		c.Says = fmt.Sprintf("kube-proxy on {node} takes it for node %s (hostnameOverride), so Services with policy Local are dropped here",
			set[0].Facts.Str(service.FactProxyNode))
	} else {
		c.Says = "kube-proxy on {node} looks for a Node that is not there, so Services with policy Local are dropped here: " +
			lines[0].Facts.Str(logs.FactLine)
	}
	if len(local) > 0 {
		c.Says += "; such are " + local[0].Facts.Str(facts.Services)
	}
	return []diagnose.Case{c}
}

// masqueradedPods are policies by source behind a kube-proxy that hides the source.
func masqueradedPods(f diagnose.Findings) []diagnose.Case {
	set, filtered := proxySet(f, service.FactMasquerades), servicesThat(f, facts.ServicesBySource)
	if len(set) == 0 || len(filtered) == 0 {
		return nil
	}
	return []diagnose.Case{{
		Says: fmt.Sprintf("policies by source do not know pods of {node} that come through a Service, for kube-proxy masquerades them (%s): %s, by %s",
			set[0].Facts.Str(service.FactMasquerades), filtered[0].Facts.Str(facts.Services),
			filtered[0].Facts.Str(facts.Policy)),
		For: diagnose.Hints(set, filtered),
	}}
}

// foreignMasquerade is a rule of others that hides pods' addresses.
func foreignMasquerade(f diagnose.Findings) []diagnose.Case {
	rule := diagnose.Keep(f.Of(firewall.NodeFirewall.ID),
		func(r diagnose.Finding) bool { return r.Facts.Str(firewall.FactNATRule) != "" })
	held := diagnose.Keep(slices.Concat(f.Bad(pod.PodPing.ID), f.Bad(pod.PodTCP.ID)), func(r diagnose.Finding) bool {
		return r.Facts.Str(probe.FactPolicy) != "" && r.Facts.Str(probe.FactDenied) == ""
	})
	filtered := servicesThat(f, facts.ServicesBySource)
	if len(rule) == 0 || rule[0].Status != probe.Warn && len(held)+len(filtered) == 0 {
		return nil
	}
	policy := ""
	if by := rule[0].Facts.Str(firewall.FactByLabels); by != "" {
		policy = ", such as " + by
	}
	return []diagnose.Case{{
		Says: fmt.Sprintf("pods of {node} come to other nodes' pods with the node's address, so policies that admit pods by their labels%s deny them: %s",
			policy, rule[0].Facts.Str(firewall.FactNATRule)),
		For: slices.Concat(diagnose.Suggests(rule[:1]), diagnose.Shows(filtered), diagnose.Hints(held[:min(1, len(held))])),
		Covers: append(diagnose.Covers(pod.PodPing.ID, pod.PodTCP.ID),
			diagnose.Cover{Check: firewall.NodeFirewall.ID, About: rule[0].Target}),
	}}
}
