package cause

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/calico-probe/calico-probe/internal/diagnose"
	"github.com/calico-probe/calico-probe/internal/subject/dns"
	"github.com/calico-probe/calico-probe/internal/subject/evidence"
	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/probe/facts"
)

// inService returns the good answers of the DNS Service with the same place and transport as another result.
func inService(f diagnose.Findings, as diagnose.Finding) []diagnose.Finding {
	return diagnose.Keep(evidence.ToService(f.Of(dns.DNSCluster.ID)), func(r diagnose.Finding) bool {
		return r.Status == probe.OK && r.From == as.From &&
			r.Facts.Str(probe.FactTransport) == as.Facts.Str(probe.FactTransport)
	})
}

// serverOf returns the address in the target of a dns-cluster result, "service 10.96.0.10:53 udp".
func serverOf(r diagnose.Finding) netip.Addr {
	for word := range strings.FieldsSeq(r.Target) {
		if at, err := netip.ParseAddrPort(word); err == nil {
			return at.Addr()
		}
	}
	return netip.Addr{}
}

// clusterDNSWrong matches a kubelet that configures pods with a name server that does not exist.
func clusterDNSWrong(f diagnose.Findings) []diagnose.Case {
	var wrong, served []diagnose.Finding
	for _, r := range evidence.InRole(f.Failed(dns.DNSCluster.ID), probe.RoleGiven) {
		if diagnose.ReasonOf(r) == dns.ReasonUnset {
			served = diagnose.Keep(evidence.ToService(f.Of(dns.DNSCluster.ID)),
				func(s diagnose.Finding) bool { return s.Status == probe.OK })
		} else {
			served = append(served, inService(f, r)...)
		}
		wrong = append(wrong, r)
	}
	if len(wrong) == 0 || len(served) == 0 {
		return nil
	}
	at, given := serverOf(wrong[0]), diagnose.ListOf(wrong[0], dns.FactGiven)
	c := diagnose.Case{For: append(diagnose.Proves(wrong), diagnose.Shows(served[:1])...), Covers: evidence.NamesFail}
	switch {
	case diagnose.ReasonOf(wrong[0]) == dns.ReasonUnset:
		c.Says = fmt.Sprintf("the kubelet on {node} has no clusterDNS, so new pods do not use the cluster's DNS, which is %s", serverOf(served[0]))
	case at.IsLinkLocalUnicast():
		c.Says = fmt.Sprintf("the DNS cache on {node} at %s, the name server of its pods, does not answer (%s); the DNS Service at %s does",
			at, wrong[0].Saw, serverOf(served[0]))
		c.FixName = "no-cache"
	default:
		c.Says = fmt.Sprintf("the kubelet on {node} configures pods with name server %s (clusterDNS), but the cluster's DNS Service is %s: %s",
			at, serverOf(served[0]), wrong[0].Saw)
	}
	if len(given) > 1 { // a pod's resolver tries the next server
		c.For[0].Weight = diagnose.Strong
	}
	return []diagnose.Case{c}
}

// unknownName reports whether a server answers that the name does not exist.
func unknownName(r diagnose.Finding) bool { return r.Facts.Str(probe.FactRcode) == "NXDOMAIN" }

// clusterDomainWrong matches a kubelet whose cluster domain differs from the DNS server's.
func clusterDomainWrong(f diagnose.Findings) []diagnose.Case {
	queries := diagnose.Keep(f.Of(dns.DNSCluster.ID),
		func(r diagnose.Finding) bool { return r.Facts.Str(probe.FactRcode) != "" })
	if c, is := otherZones(f, queries); is {
		return []diagnose.Case{c}
	}
	unknown := diagnose.Keep(f.Failed(dns.DNSCluster.ID), unknownName)
	if len(unknown) == 0 || len(unknown) < len(queries) {
		return nil
	}
	domain := domainOf
	c := diagnose.Case{
		Says: fmt.Sprintf("the kubelet on {node} configures pods with the cluster domain %s, which the cluster's DNS does not serve", domain(unknown[0])),
		For:  diagnose.Suggests(unknown), Covers: diagnose.Covers(dns.DNSCluster.ID),
	}
	for _, r := range f.Elsewhere(dns.DNSCluster.ID) {
		if d := domain(r); r.Status == probe.OK && d != "" && d != domain(unknown[0]) {
			c.Says += fmt.Sprintf("; on %s it is %s, and names resolve", r.Node, d)
			c.For[0].Weight = diagnose.Proof
			c.For = append(c.For, diagnose.Shows([]diagnose.Finding{r})...)
			break
		}
	}
	return []diagnose.Case{c}
}

// domainOf returns the cluster domain of the queried name.
func domainOf(r diagnose.Finding) string {
	_, after, _ := strings.Cut(strings.TrimSuffix(r.Facts.Str(dns.FactQuestion), "."), ".svc.")
	return after
}

// otherZones returns the case of a Corefile without a zone for the pods' domain, where every answer is an error.
func otherZones(f diagnose.Findings, answered []diagnose.Finding) (diagnose.Case, bool) {
	known := diagnose.Keep(f.Of(facts.CheckDNSService),
		func(r diagnose.Finding) bool { return len(diagnose.ListOf(r, facts.Zones)) > 0 })
	failed := diagnose.Keep(answered, func(r diagnose.Finding) bool { return r.Status == probe.Fail })
	if len(known) == 0 || len(failed) == 0 || len(failed) < len(answered) {
		return diagnose.Case{}, false
	}
	domain, zones := domainOf(failed[0]), diagnose.ListOf(known[0], facts.Zones)
	domain = strings.ToLower(domain)
	serves := func(zone string) bool { return zone == domain || strings.HasSuffix(domain, "."+zone) }
	weight := diagnose.Proof
	other := func(r diagnose.Finding) bool { return !unknownName(r) && r.Facts.Str(probe.FactRcode) != "REFUSED" }
	if slices.ContainsFunc(failed, other) {
		weight = diagnose.Strong // there may be another reason
	}
	if domain == "" || slices.ContainsFunc(zones, serves) {
		return diagnose.Case{}, false
	}
	return diagnose.Case{
		Says: fmt.Sprintf("pods on {node} search the cluster domain %s, but CoreDNS serves only %s (Corefile in ConfigMap %s)",
			domain, strings.Join(zones, ", "), known[0].Facts.Str(facts.ConfigMap)),
		For:    append(diagnose.Clues(weight, failed[:1]), diagnose.Shows(known)...),
		Covers: diagnose.Covers(dns.DNSCluster.ID, dns.DNSExternal.ID),
	}, true
}
