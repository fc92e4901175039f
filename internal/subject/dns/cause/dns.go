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

// inService are the answers of the DNS Service that were good, asked in the same place and manner as another.
func inService(f diagnose.Findings, as diagnose.Finding) []diagnose.Finding {
	return diagnose.Keep(evidence.ToService(f.Of(dns.DNSCluster.ID)), func(r diagnose.Finding) bool {
		return r.Status == probe.OK && r.From == as.From &&
			r.Facts.Str(probe.FactTransport) == as.Facts.Str(probe.FactTransport)
	})
}

// serverOf is the address in the target of a result of dns-cluster, "service 10.96.0.10:53 udp".
func serverOf(r diagnose.Finding) netip.Addr {
	for word := range strings.FieldsSeq(r.Target) {
		if at, err := netip.ParseAddrPort(word); err == nil {
			return at.Addr()
		}
	}
	return netip.Addr{}
}

// clusterDNSWrong is a kubelet that gives pods a name server that is not there.
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
		c.Says = fmt.Sprintf("the kubelet on {node} has no clusterDNS, so new pods do not ask the cluster's DNS, which is %s", serverOf(served[0]))
	case at.IsLinkLocalUnicast():
		c.Says = fmt.Sprintf("the node's own DNS cache at %s, which the kubelet on {node} gives to pods, does not serve names (%s); the DNS Service at %s does",
			at, wrong[0].Saw, serverOf(served[0]))
		c.Fix = &noCache
	default:
		c.Says = fmt.Sprintf("the kubelet on {node} gives pods name server %s (clusterDNS), and the cluster's DNS Service is %s: %s",
			at, serverOf(served[0]), wrong[0].Saw)
	}
	if len(given) > 1 { // the resolver of a pod goes on to the next
		c.For[0].Weight = diagnose.Strong
	}
	return []diagnose.Case{c}
}

// noCache is what to do about NodeLocal DNSCache.
var noCache = probe.Fix{
	Says: "Start the node's DNS cache again (DaemonSet node-local-dns): its log names the reason.",
	Manifest: []string{"kubectl -n kube-system get pods -l k8s-app=node-local-dns -o wide --field-selector spec.nodeName={node}",
		"kubectl -n kube-system logs -l k8s-app=node-local-dns --prefix --tail=20",
		"ssh {node} ip -br address show nodelocaldns"},
	Radius: evidence.OnlyReads,
}

// unknownName tells whether a server answers that it does not know the name.
func unknownName(r diagnose.Finding) bool { return r.Facts.Str(probe.FactRcode) == "NXDOMAIN" }

// clusterDomainWrong is a kubelet that gives pods another cluster domain than the DNS serves.
func clusterDomainWrong(f diagnose.Findings) []diagnose.Case {
	asked := diagnose.Keep(f.Of(dns.DNSCluster.ID),
		func(r diagnose.Finding) bool { return r.Facts.Str(probe.FactRcode) != "" })
	if c, is := otherZones(f, asked); is {
		return []diagnose.Case{c}
	}
	unknown := diagnose.Keep(f.Failed(dns.DNSCluster.ID), unknownName)
	if len(unknown) == 0 || len(unknown) < len(asked) {
		return nil
	}
	domain := domainOf
	c := diagnose.Case{
		Says: fmt.Sprintf("the kubelet on {node} gives pods the cluster domain %s, which the cluster's DNS does not know", domain(unknown[0])),
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

// domainOf is the cluster domain of the name that was looked up.
func domainOf(r diagnose.Finding) string {
	_, after, _ := strings.Cut(strings.TrimSuffix(r.Facts.Str(dns.FactQuestion), "."), ".svc.")
	return after
}

// otherZones is the case of a Corefile that has no zone for the domain of the pods, where every answer is an error.
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
		weight = diagnose.Strong // it may have another reason too
	}
	if domain == "" || slices.ContainsFunc(zones, serves) {
		return diagnose.Case{}, false
	}
	return diagnose.Case{
		Says: fmt.Sprintf("pods on {node} search the cluster domain %s, and CoreDNS answers for %s alone (Corefile in ConfigMap %s)",
			domain, strings.Join(zones, ", "), known[0].Facts.Str(facts.ConfigMap)),
		For:    append(diagnose.Clues(weight, failed[:1]), diagnose.Shows(known)...),
		Covers: diagnose.Covers(dns.DNSCluster.ID, dns.DNSExternal.ID),
	}, true
}

// dnsUnserved is a DNS Service that nothing stands behind, for a reason that is in the API's objects.
func dnsUnserved(f diagnose.Findings) []diagnose.Case {
	known := []string{facts.EmptySelector, facts.EmptyAbsent, facts.EmptyNoSelector, facts.EmptyScaled,
		facts.EmptyNotMade,
		facts.EmptyPort, facts.EmptyController, facts.EmptyLocal, facts.EmptyOtherProxy, facts.EmptyNoUDP}
	failed := evidence.ToService(f.Failed(dns.DNSCluster.ID))
	empty := diagnose.Keep(f.Of(facts.CheckDNSService), func(r diagnose.Finding) bool {
		return slices.Contains(known, r.Facts.Str(facts.Empty)) && (diagnose.IsBad(r.Status) || len(failed) > 0)
	})
	given := diagnose.Keep(evidence.InRole(f.Of(dns.DNSCluster.ID), probe.RoleGiven), func(r diagnose.Finding) bool {
		return r.Status == probe.OK
	})
	if len(empty) == 0 || len(given) > 0 { // pods ask another server, and it answers
		return nil
	}
	weight := diagnose.Proof
	if len(failed) == 0 {
		weight = diagnose.Hint
	}
	c := diagnose.Case{Says: "the cluster's DNS has no server: " + empty[0].Saw, For: append(diagnose.Clues(weight, empty), diagnose.Shows(failed)...),
		Covers: append(diagnose.Covers(facts.CheckDNSService), evidence.NamesFail...)}
	switch empty[0].Facts.Str(facts.Empty) {
	case facts.EmptyLocal:
		c.Says, c.Fix = "the cluster's DNS has no server for {node}: "+empty[0].Saw, &useAllServers
	case facts.EmptyOtherProxy:
		c.Says, c.Fix = "kube-proxy does not serve the cluster's DNS: "+empty[0].Saw, &useKubeProxy
		_, name, _ := strings.Cut(empty[0].Facts.Str(facts.Service), "/")
		c.Args = map[string]diagnose.Arg{"service": diagnose.CheckedArg(name, diagnose.IsName(name), "SERVICE")}
	case facts.EmptyNoUDP:
		c.Says, c.Fix = "DNS queries over UDP reach no server: "+empty[0].Saw, &addUDPPort
	}
	return []diagnose.Case{c}
}

// useAllServers is the fix of a DNS Service that keeps to the endpoints of each node.
var useAllServers = probe.Fix{
	Says:     "Let the Service use all its endpoints, or run a DNS server on every node.",
	Manifest: []string{"kubectl -n kube-system get services -l k8s-app=kube-dns -o custom-columns=NAME:.metadata.name,INTERNAL:.spec.internalTrafficPolicy"},
	OnlyIf: []probe.Conditional{{If: "DNS servers are not meant to be on every node",
		Manifest: []string{`kubectl -n kube-system patch service kube-dns -p '{"spec":{"internalTrafficPolicy":"Cluster"}}'`}}},
	Radius: "reading changes nothing; the change holds for the pods of every node, at once",
}

// useKubeProxy is the fix of a DNS Service whose label leaves it to a program that is gone.
var useKubeProxy = probe.Fix{
	Says:     "Take the label away, or start the program that it names.",
	Manifest: []string{"kubectl -n kube-system get services -l k8s-app=kube-dns --show-labels"},
	OnlyIf: []probe.Conditional{{If: "kube-proxy is to serve it",
		Manifest: []string{"kubectl -n kube-system label service {service} service.kubernetes.io/service-proxy-name-"}}},
	Radius: "reading changes nothing; without the label every kube-proxy serves the address at once",
}

// addUDPPort is the fix of a DNS Service that lost its UDP port.
var addUDPPort = probe.Fix{
	Says:     "Add port 53 UDP to the Service again. An apply that merges ports by number keeps one of two ports 53.",
	Manifest: []string{"kubectl -n kube-system get services -l k8s-app=kube-dns -o yaml"},
	OnlyIf: []probe.Conditional{{If: "its name is kube-dns, and its port 53 TCP is named dns-tcp and has the targetPort 53",
		Manifest: []string{`kubectl -n kube-system patch service kube-dns --type=json -p '[{"op":"add","path":"/spec/ports/0","value":{"name":"dns","port":53,"protocol":"UDP","targetPort":53}}]'`}}},
	Radius: "reading changes nothing; the port serves the whole cluster, at once",
}

// dnsForbidden is a CoreDNS that may not read what it serves.
func dnsForbidden(f diagnose.Findings) []diagnose.Case {
	lacks := diagnose.Keep(f.Bad(facts.CheckDNSService),
		func(r diagnose.Finding) bool { return len(diagnose.ListOf(r, facts.Lacks)) > 0 })
	if len(lacks) == 0 {
		return nil
	}
	failed := diagnose.Keep(f.Failed(dns.DNSCluster.ID), func(r diagnose.Finding) bool {
		role := r.Facts.Str(probe.FactRole)
		return (role == probe.RoleService || role == probe.RoleEndpoint) && !unknownName(r)
	})
	weight := diagnose.Hint
	switch {
	case lacks[0].Status == probe.Fail:
		weight = diagnose.Proof
	case len(failed) > 0 && lacks[0].Facts[facts.Later] != true: // by roles alone
		weight = diagnose.Strong
	}
	namespace, name, _ := strings.Cut(lacks[0].Facts.Str(facts.Account), ":")
	return []diagnose.Case{{
		Says: "CoreDNS may not read what it serves: " + lacks[0].Saw,
		Args: map[string]diagnose.Arg{"account": diagnose.CheckedArg(namespace+":"+name, diagnose.IsName(namespace) &&
			diagnose.IsName(name), "NAMESPACE:NAME")},
		For:    append(diagnose.Clues(weight, lacks), diagnose.Shows(failed)...),
		Covers: append(diagnose.Covers(facts.CheckDNSService), evidence.NamesFail...),
	}}
}
