package evidence

import (
	"cmp"
	"slices"

	"github.com/calico-probe/calico-probe/internal/diagnose"
	"github.com/calico-probe/calico-probe/internal/subject/datastore"
	"github.com/calico-probe/calico-probe/internal/subject/dns"
	"github.com/calico-probe/calico-probe/internal/subject/felix"
	"github.com/calico-probe/calico-probe/internal/subject/pod"
	"github.com/calico-probe/calico-probe/internal/subject/service"
	"github.com/calico-probe/calico-probe/internal/subject/start"
	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/probe/facts"
	"github.com/calico-probe/calico-probe/probe/logs"
)

// WithoutDatastore covers what fails on a node that cannot reach the API server.
var WithoutDatastore = append(diagnose.Covers(
	logs.CalicoLog.ID, datastore.DatastoreLatency.ID, service.ServiceClusterIP.ID, dns.DNSCluster.ID, start.InitStall.ID,
	felix.FelixReady.ID,
	facts.CheckNodeLease, facts.CheckNodeReady, facts.CheckNodeTaints,
), CalicoDown...)

// ToService returns the findings of connections to a Service's address.
func ToService(fs []diagnose.Finding) []diagnose.Finding { return InRole(fs, probe.RoleService) }

// ToServers returns the findings of connections to a Service's endpoints, bypassing the Service's address.
func ToServers(fs []diagnose.Finding) []diagnose.Finding { return InRole(fs, probe.RoleEndpoint) }

// InRole returns the findings with this role of the target, such as probe.RoleService.
func InRole(fs []diagnose.Finding, role string) []diagnose.Finding {
	return diagnose.Keep(fs, func(r diagnose.Finding) bool { return r.Facts.Str(probe.FactRole) == role })
}

// NamesFail covers what fails on a node that cannot resolve names.
var NamesFail = diagnose.Covers(dns.DNSCluster.ID, dns.DNSExternal.ID)

// NotItsOwn covers findings from or about pods if the same target works for the node itself.
func NotItsOwn(f diagnose.Findings, seen []diagnose.Finding) []diagnose.Cover {
	var out []diagnose.Cover
	for _, r := range seen {
		own := func(o diagnose.Finding) bool {
			return o.From == "" && o.Target == r.Target && diagnose.IsBad(o.Status) && o.Facts.Str(probe.FactPolicy) == ""
		}
		if !slices.ContainsFunc(f.Of(r.Check), own) {
			out = append(out, diagnose.Cover{Check: r.Check, About: r.Target})
		}
	}
	return out
}

// HasPort reports whether a fact's list contains a port.
func HasPort(r diagnose.Finding, fact probe.Fact, port float64) bool {
	ports, _ := r.Facts[fact].([]any) // as decoded from JSON
	return slices.Contains(ports, any(port))
}

// Serviceless covers what fails on a node where Services do not work.
var Serviceless = diagnose.Covers(
	service.ServiceClusterIP.ID, service.ServiceNodePort.ID, dns.DNSCluster.ID, dns.DNSExternal.ID,
	datastore.DatastoreLatency.ID,
	service.KubeProxyHealth.ID, start.InitStall.ID,
)

// podBeside returns a pod that answers this node, preferably on a declared port and on the node of a silent server.
func podBeside(f diagnose.Findings, dead []diagnose.Finding) []diagnose.Finding {
	all := diagnose.Keep(f.Of(pod.PodTCP.ID), func(r diagnose.Finding) bool {
		return diagnose.IsAnswered(r.Status) && r.Facts.Str(probe.FactRole) != pod.RoleOwnNode
	})
	best := func(r diagnose.Finding) int {
		score := 0
		if slices.ContainsFunc(dead, func(d diagnose.Finding) bool {
			return diagnose.NodeOf(d) != "" && diagnose.NodeOf(d) == diagnose.NodeOf(r)
		}) {
			score += 2
		}
		if declared, _ := r.Facts[pod.FactDeclared].(bool); declared {
			score++
		}
		return score
	}
	slices.SortStableFunc(all, func(a, b diagnose.Finding) int { return cmp.Compare(best(b), best(a)) })
	return all[:1]
}
