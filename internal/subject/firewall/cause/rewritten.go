package cause

import (
	"slices"
	"strings"

	"github.com/calico-probe/calico-probe/internal/diagnose"
	"github.com/calico-probe/calico-probe/internal/subject/evidence"
	"github.com/calico-probe/calico-probe/internal/subject/firewall"
	"github.com/calico-probe/calico-probe/internal/subject/service"
	"github.com/calico-probe/calico-probe/probe"
)

// firewallRewritten matches a program that removes the rules of both Calico and kube-proxy.
func firewallRewritten(f diagnose.Findings) []diagnose.Case {
	services := diagnose.Keep(f.Failed(service.KubeProxyHealth.ID), diagnose.About(service.TargetServices))
	policy := diagnose.Keep(f.Failed(firewall.NodeFirewall.ID), unhooked)
	var tables []string
	for _, r := range policy {
		for _, table := range diagnose.ListOf(r, firewall.FactForeignTables) {
			if !slices.Contains(tables, table) {
				tables = append(tables, table)
			}
		}
	}
	gone := diagnose.Keep(policy,
		func(r diagnose.Finding) bool { return len(diagnose.ListOf(r, probe.FactBackends)) == 0 })
	if len(services) == 0 || len(tables) == 0 && len(gone) == 0 {
		return nil
	}
	c := diagnose.Case{For: slices.Concat(diagnose.Suggests(services), diagnose.Suggests(policy)),
		Covers: slices.Concat(evidence.Serviceless, evidence.CalicoDown),
		Says:   "another program on {node} rewrites the firewall: the rules of both Calico and kube-proxy are gone"}
	if len(tables) > 0 {
		family, name, _ := strings.Cut(tables[0], " ")
		c.Args = map[string]diagnose.Arg{"table": diagnose.CheckedArg(tables[0], diagnose.IsWord(family) &&
			diagnose.IsWord(name), "FAMILY TABLE")}
		c.Says += ", and a table that belongs to neither exists: " + strings.Join(tables, ", ")
	} else {
		c.Says += ", and no other table has rules"
		c.FixName = "flushed"
	}
	c.Says += flushedBy(policy)
	for _, cover := range evidence.OverPods(f) {
		if strings.HasPrefix(cover.Check, "pod-") {
			c.Covers = append(c.Covers, cover)
		}
	}
	return []diagnose.Case{c}
}

// flushedBy returns the end of a sentence with the processes that flush firewalls, or "".
func flushedBy(policy []diagnose.Finding) string {
	for _, r := range policy {
		if seen := diagnose.ListOf(r, firewall.FactFlushers); len(seen) > 0 {
			return "; running there: " + strings.Join(seen, ", ")
		}
	}
	return ""
}

// unhooked reports whether no firewall sends forwarded packets to Calico's chains.
func unhooked(r diagnose.Finding) bool {
	return r.Status == probe.Fail && len(diagnose.ListOf(r, firewall.FactInUse)) == 0
}
