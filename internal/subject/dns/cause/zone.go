package cause

import (
	"fmt"
	"strings"

	"github.com/calico-probe/calico-probe/internal/diagnose"
	"github.com/calico-probe/calico-probe/internal/subject/dns"
	"github.com/calico-probe/calico-probe/probe"
)

// dnsZoneShadowed is a part of CoreDNS' configuration that answers for a namespace in place of the plugin kubernetes.
func dnsZoneShadowed(f diagnose.Findings) []diagnose.Case {
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
}

// part is a label of a name by its place, "" where it has fewer.
func part(name string, at int) string {
	labels := strings.Split(name, ".")
	if at >= len(labels) {
		return ""
	}
	return labels[at]
}
