// Package ask combines the subjects' checks of a node with the functions that run the checks:
//
//	suite.Node + each internal/subject/NAME/ask -> All -> the probe's runner
//
// All is the entry point. Only the probe links this package. The client does not, because this package imports
// clients for container runtimes, DNS and the kernel.
package ask

import (
	"slices"

	bgpask "github.com/calico-probe/calico-probe/internal/subject/bgp/ask"
	cniask "github.com/calico-probe/calico-probe/internal/subject/cni/ask"
	datastoreask "github.com/calico-probe/calico-probe/internal/subject/datastore/ask"
	dnsask "github.com/calico-probe/calico-probe/internal/subject/dns/ask"
	felixask "github.com/calico-probe/calico-probe/internal/subject/felix/ask"
	firewallask "github.com/calico-probe/calico-probe/internal/subject/firewall/ask"
	hostask "github.com/calico-probe/calico-probe/internal/subject/host/ask"
	kubeletask "github.com/calico-probe/calico-probe/internal/subject/kubelet/ask"
	linkask "github.com/calico-probe/calico-probe/internal/subject/link/ask"
	nodestateask "github.com/calico-probe/calico-probe/internal/subject/nodestate/ask"
	overlayask "github.com/calico-probe/calico-probe/internal/subject/overlay/ask"
	podask "github.com/calico-probe/calico-probe/internal/subject/pod/ask"
	routeask "github.com/calico-probe/calico-probe/internal/subject/route/ask"
	runtimeask "github.com/calico-probe/calico-probe/internal/subject/runtime/ask"
	serviceask "github.com/calico-probe/calico-probe/internal/subject/service/ask"
	startask "github.com/calico-probe/calico-probe/internal/subject/start/ask"
	"github.com/calico-probe/calico-probe/internal/subject/suite"
	"github.com/calico-probe/calico-probe/probe"
)

// bySubject returns the checks from all ask packages.
func bySubject() []*probe.Check {
	return slices.Concat(
		bgpask.Checks(), cniask.Checks(), datastoreask.Checks(), dnsask.Checks(), felixask.Checks(),
		firewallask.Checks(), hostask.Checks(), kubeletask.Checks(), linkask.Checks(), nodestateask.Checks(),
		overlayask.Checks(), podask.Checks(), routeask.Checks(), runtimeask.Checks(), serviceask.Checks(),
		startask.Checks(),
	)
}

// All lists the checks of a node in the suite's order. Each check is bound to the function that runs it. The checks
// in package logs are already bound.
func All() []*probe.Check {
	all := suite.Node()
	answered := bySubject()
	for i, c := range all {
		if at := slices.IndexFunc(answered, func(a *probe.Check) bool { return a.ID == c.ID }); at >= 0 {
			all[i] = answered[at]
		}
	}
	return all
}
