// Package api joins the checks of the subjects that the API alone can answer, and puts some of them
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
)

// Checks lists the checks the API alone can answer, bound to a Snapshot, in the order in which they are shown. With a
// nil Snapshot they can be listed and explained, not run.
func Checks(s *cluster.Snapshot) []*probe.Check {
	return slices.Concat(
		kubeletapi.Checks(s), podapi.Checks(s), // the node and its pods
		serviceapi.Checks(s), firewallapi.Checks(s), dnsapi.Checks(s), // what pods are to reach
		startapi.Checks(s), datastoreapi.Checks(s), // calico-node, and what it starts with
		routeapi.Checks(s), bgpapi.Checks(s), overlayapi.Checks(s), // how packets are to go
	)
}
