package cause

import (
	"cmp"

	"github.com/calico-probe/calico-probe/internal/diagnose"
	"github.com/calico-probe/calico-probe/internal/subject/dns"
	"github.com/calico-probe/calico-probe/internal/subject/evidence"
	"github.com/calico-probe/calico-probe/internal/subject/pod"
	"github.com/calico-probe/calico-probe/probe/facts"
	"github.com/calico-probe/calico-probe/probe/logs"
)

// dnsDown are the servers behind the cluster's DNS that do not answer.
func dnsDown(f diagnose.Findings) []diagnose.Case {
	all := evidence.ToServers(f.Of(dns.DNSCluster.ID))
	dead := evidence.ToServers(f.Failed(dns.DNSCluster.ID))
	if len(all) == 0 {
		dead = nil
		for _, r := range evidence.ToService(f.Failed(dns.DNSCluster.ID)) { // without a server: none is ready
			if reason := diagnose.ReasonOf(r); reason == "refused" || reason == "rejected" ||
				r.Facts.Str(dns.FactUnserved) != "" {
				dead = append(dead, r)
			}
		}
	}
	if len(dead) == 0 || len(dead) < len(all) || len(diagnose.Keep(dead, unknownName)) == len(dead) { // they do answer
		return nil
	}
	says := cmp.Or(dead[0].Facts.Str(dns.FactUnserved), dead[0].Saw)
	c := diagnose.Case{
		Says: "the cluster's DNS is down: " + says,
		For:  diagnose.Suggests(dead), Covers: diagnose.Covers(dns.DNSCluster.ID, dns.DNSExternal.ID, facts.CheckDNSService),
	}
	if lost := f.Failed(facts.CheckNodeLease); len(all) == 0 && len(lost) > 0 {
		// The pods of a node that is not heard of count as not ready, whatever they do.
		c.For = append(diagnose.Hints(dead[:1]), diagnose.Shows(dead[1:], lost)...)
	} else if f.Fine(pod.PodTCP.ID) { // so pods can be reached
		c.For = append(c.For, diagnose.Hints(evidence.PodBeside(f, dead))...)
	} else if pods := f.Failed(pod.PodTCP.ID); len(pods) > 0 {
		c.Against = diagnose.Hints(pods)
	}
	if late := evidence.Starved(f); len(late) > 0 { // the client itself is slow
		c.Against = append(c.Against, diagnose.Suggests(late[:1])...)
	}
	return []diagnose.Case{c}
}

// dnsNoUpstream is a DNS that knows the cluster and nothing else.
func dnsNoUpstream(f diagnose.Findings) []diagnose.Case {
	var shut []diagnose.Finding
	for _, r := range evidence.ToService(f.Bad(dns.DNSExternal.ID)) {
		if r.Facts.Str(dns.FactQuestion) == "." {
			shut = append(shut, r)
		}
	}
	if len(shut) == 0 {
		return nil
	}
	c := diagnose.Case{Says: "outside names do not resolve in pods: " + shut[0].Saw, For: diagnose.Suggests(shut),
		Covers: diagnose.Covers(dns.DNSExternal.ID)}
	lines := evidence.KubeSays(f, "coredns", logs.SaysUpstream)
	for _, node := range f.Others() {
		lines = append(lines, evidence.KubeSays(f.At(node), "coredns", logs.SaysUpstream)...)
	}
	if len(lines) > 0 {
		c.Says = "outside names do not resolve in pods: " + lines[0].Facts.Str(logs.FactOfServer) +
			", to which CoreDNS forwards, does not answer it (" + shut[0].Saw + ")"
		c.For = append(c.For, diagnose.Hints(lines)...)
	}
	return []diagnose.Case{c}
}
