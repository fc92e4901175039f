// Package api joins the checks of the subjects that the API alone can answer, in one order, and puts some of them
// together: how each node does (Standings), and whether a node starts containers (StartsNothing). The client alone
// links it.
package api

import (
	"slices"

	"github.com/calico-probe/calico-probe/internal/cluster"
	bgpapi "github.com/calico-probe/calico-probe/internal/subject/bgp/api"
	datastoreapi "github.com/calico-probe/calico-probe/internal/subject/datastore/api"
	dnsapi "github.com/calico-probe/calico-probe/internal/subject/dns/api"
	firewallapi "github.com/calico-probe/calico-probe/internal/subject/firewall/api"
	kubeletapi "github.com/calico-probe/calico-probe/internal/subject/kubelet/api"
	overlayapi "github.com/calico-probe/calico-probe/internal/subject/overlay/api"
	podapi "github.com/calico-probe/calico-probe/internal/subject/pod/api"
	routeapi "github.com/calico-probe/calico-probe/internal/subject/route/api"
	serviceapi "github.com/calico-probe/calico-probe/internal/subject/service/api"
	startapi "github.com/calico-probe/calico-probe/internal/subject/start/api"
	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/probe/facts"
)

// order is that in which they are asked and listed.
var order = []string{
	facts.CheckNodeReady,
	facts.CheckNodeLease,
	facts.CheckNodeTaints,
	facts.CheckPodsStart,
	facts.CheckPodsEnd,
	facts.CheckServiceClaims,
	facts.CheckServiceEndpoints,
	facts.CheckServicePolicies,
	facts.CheckPodPolicies,
	facts.CheckDNSPolicies,
	facts.CheckAPIPolicies,
	facts.CheckProxyRights,
	facts.CheckDNSService,
	facts.CheckCalicoKind,
	facts.CheckCalicoPod,
	facts.CheckCalicoBudget,
	facts.CheckControllers,
	facts.CheckIPRegistered,
	facts.CheckHostEndpoints,
	facts.CheckDatastoreReady,
	facts.CheckRouteMakers,
	facts.CheckBGPPeering,
	facts.CheckIPPools,
	facts.CheckAccounts,
	facts.CheckCalicoRights,
	facts.CheckWebhooks,
	facts.CheckTyphaService,
	facts.CheckTunnelSettings,
}

// Checks lists the checks the API alone can answer, bound to a Snapshot. With a nil Snapshot they can be listed and
// explained, not run.
func Checks(s *cluster.Snapshot) []*probe.Check {
	all := slices.Concat(bgpapi.Checks(s), datastoreapi.Checks(s), dnsapi.Checks(s), firewallapi.Checks(s),
		kubeletapi.Checks(s), overlayapi.Checks(s), podapi.Checks(s), routeapi.Checks(s), serviceapi.Checks(s),
		startapi.Checks(s))
	slices.SortFunc(all, func(a, b *probe.Check) int {
		return slices.Index(order, a.ID) - slices.Index(order, b.ID)
	})
	return all
}
