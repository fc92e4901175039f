package cause

import (
	"cmp"

	"github.com/calico-probe/calico-probe/internal/diagnose"
	"github.com/calico-probe/calico-probe/internal/subject/datastore"
	"github.com/calico-probe/calico-probe/internal/subject/dns"
	"github.com/calico-probe/calico-probe/internal/subject/evidence"
	"github.com/calico-probe/calico-probe/internal/subject/pod"
	"github.com/calico-probe/calico-probe/internal/subject/service"
	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/probe/facts"
	"github.com/calico-probe/calico-probe/probe/logs"
)

// dnsDown are the servers behind the cluster's DNS that do not answer.
var dnsDown = &diagnose.Rule{
	ID: "dns-down", Layer: diagnose.LayerServices, Symptom: true, Title: "the cluster DNS servers do not answer",
	Doc: `Neither the DNS service nor the servers behind it answer this node. Refused: CoreDNS does not run where the API says it does, or the Service has no ready endpoint, as when its Deployment is scaled to 0 replicas. SERVFAIL: it runs and cannot read the API. No answer from servers on other nodes, when pods there do not answer either, is a broken pod network, and not DNS.
Told from broken services by the servers, which are asked directly, from a broken pod network by pod-tcp, and from a firewall that knows DNS as UDP alone by the TCP answers.`,
	Fix: probe.Fix{
		Says: "See whether CoreDNS runs and what it says.",
		Manifest: []string{"kubectl -n kube-system get deployments,pods -l k8s-app=kube-dns -o wide",
			"kubectl -n kube-system logs -l k8s-app=kube-dns --tail=30"},
		OnlyIf: []probe.Conditional{
			{If: "its Deployment has 0 replicas, and nobody wants that",
				Manifest: []string{"kubectl -n kube-system scale deployment -l k8s-app=kube-dns --replicas=2"}},
			{If: "it runs, and does not say what it lacks",
				Manifest: []string{"kubectl -n kube-system rollout restart deploy/coredns"}},
		},
		Radius: "a restart of CoreDNS goes pod by pod; with one replica names do not resolve for some seconds, in the whole cluster",
	},
	RuledOut: []string{pod.PodTCP.ID, service.KubeProxyHealth.ID, datastore.DatastoreLatency.ID},
	Match: func(f diagnose.Findings) []diagnose.Case {
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
	},
}

// dnsNoUpstream is a DNS that knows the cluster and nothing else.
var dnsNoUpstream = &diagnose.Rule{
	ID: "dns-no-upstream", Layer: diagnose.LayerServices,
	Title: "the cluster DNS cannot resolve external names; the node's own servers can",
	Doc: `CoreDNS forwards what is not the cluster's to the name servers of the node it runs on. When those answer the node and not CoreDNS, its pod's packets do not come back: the pool does not masquerade (natOutgoing), a policy forbids it, or the Corefile names other servers.
Told from a cluster that is cut off on purpose by the node's own servers, which answer.`,
	Fix: probe.Fix{
		Says: "Have CoreDNS forward to servers that answer it: name them in the Corefile, or switch on natOutgoing of the pods' IP pool so that their answers find the way back.",
		Manifest: []string{"kubectl -n kube-system get cm coredns -o jsonpath='{.data.Corefile}' | grep -A3 forward",
			"kubectl get ippools.crd.projectcalico.org -o custom-columns=NAME:.metadata.name,CIDR:.spec.cidr,NAT:.spec.natOutgoing"},
		Radius: evidence.OnlyReads,
	},
	RuledOut: []string{dns.DNSCluster.ID},
	Match: func(f diagnose.Findings) []diagnose.Case {
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
	},
}
