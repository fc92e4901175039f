package cause

import (
	"fmt"
	"strings"

	"github.com/calico-probe/calico-probe/internal/diagnose"
	"github.com/calico-probe/calico-probe/internal/subject/datastore"
	"github.com/calico-probe/calico-probe/internal/subject/dns"
	"github.com/calico-probe/calico-probe/internal/subject/evidence"
	"github.com/calico-probe/calico-probe/internal/subject/pod"
	"github.com/calico-probe/calico-probe/internal/subject/service"
	"github.com/calico-probe/calico-probe/probe"
)

// dnsZoneShadowed is a part of CoreDNS' configuration that answers for a namespace in place of the plugin kubernetes.
var dnsZoneShadowed = &diagnose.Rule{
	ID: "dns-zone-shadowed", Layer: diagnose.LayerServices,
	Title: "another CoreDNS plugin answers cluster names before the kubernetes plugin",
	Doc: `CoreDNS answers a question by the most specific server block or zone of its Corefile. A block for a part of the cluster's domain ("default.svc.cluster.local:53"), a file, hosts, rewrite or template plugin that matches it, or a stub domain answers in place of the plugin kubernetes, and what it does not know is NXDOMAIN, SERVFAIL or REFUSED. The names of other namespaces resolve at the same server.
Where such a part resolves a name of the cluster to another address than its Service has, programs connect to the wrong machine.
Told from a DNS that is down or cannot read the API, and from another cluster domain, by those names.`,
	Fix: probe.Fix{
		Says: "Find the part of the Corefile that answers for that namespace, and add fallthrough or the plugin kubernetes to it, or remove it.",
		Manifest: []string{"kubectl -n kube-system get configmap coredns -o jsonpath='{.data.Corefile}'",
			"kubectl -n kube-system get configmap coredns coredns-custom node-local-dns --ignore-not-found -o yaml"},
		Radius: evidence.OnlyReads,
	},
	RuledOut: []string{pod.PodTCP.ID, service.KubeProxyHealth.ID, datastore.DatastoreLatency.ID},
	Explains: []string{"dns-down", "cluster-domain-wrong"},
	Match: func(f diagnose.Findings) []diagnose.Case {
		if wrong := diagnose.Keep(f.Failed(dns.DNSCluster.ID), func(r diagnose.Finding) bool {
			return len(diagnose.ListOf(r, dns.FactOfService)) > 0
		}); len(wrong) > 0 {
			return []diagnose.Case{{
				Says: fmt.Sprintf("the cluster's DNS gives a wrong address for %s: it %s. A part of its configuration (hosts, file, "+
					"template or rewrite) answers in place of the plugin kubernetes", wrong[0].Facts.Str(dns.FactQuestion), wrong[0].Saw),
				For: diagnose.Proves(wrong), Covers: diagnose.Covers(dns.DNSCluster.ID),
			}}
		}
		lost := diagnose.Keep(f.Failed(dns.DNSCluster.ID),
			func(r diagnose.Finding) bool { return r.Facts.Str(dns.FactOtherZone) != "" })
		if len(lost) == 0 {
			return nil
		}
		question, other := lost[0].Facts.Str(dns.FactQuestion), lost[0].Facts.Str(dns.FactOtherZone)
		return []diagnose.Case{{
			Says: fmt.Sprintf("the cluster's DNS answers %s to %s and resolves %s: a part of its configuration answers for namespace %s in place of the plugin kubernetes",
				lost[0].Facts.Str(probe.FactRcode), question, other, part(question, 1)),
			For: diagnose.Proves(lost), Covers: diagnose.Covers(dns.DNSCluster.ID, dns.DNSExternal.ID),
		}}
	},
}

// part is a label of a name by its place, "" where it has fewer.
func part(name string, at int) string {
	labels := strings.Split(name, ".")
	if at >= len(labels) {
		return ""
	}
	return labels[at]
}
