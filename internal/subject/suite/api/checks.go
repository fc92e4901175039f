// Package api joins the checks of all subjects that need the API alone:
//
//	cluster.Snapshot -> Checks         results about one node
//	                 -> Standings      the state of each node, the worst first
//	                 -> StartsNothing  whether a node cannot start containers
//
// Checks is the entry point. The client alone links the package. It sends no request itself: internal/cluster reads
// the Snapshot.
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

// Checks returns the checks that need the API alone, bound to a Snapshot, in display order. With a nil Snapshot, checks
// can be listed and explained, but not run.
func Checks(s *cluster.Snapshot) []*probe.Check {
	return slices.Concat(
		kubeletapi.Checks(s), podapi.Checks(s), // the node and its pods
		serviceapi.Checks(s), firewallapi.Checks(s), dnsapi.Checks(s), // what pods need to reach
		startapi.Checks(s), datastoreapi.Checks(s), // calico-node, and what its start needs
		routeapi.Checks(s), bgpapi.Checks(s), overlayapi.Checks(s), // how packets should travel
	)
}
