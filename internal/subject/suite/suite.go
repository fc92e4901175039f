// Package suite lists the checks of all subjects that run on a node. Both binaries list them in this order.
//
// A subject has up to four packages, and results flow through them in this order:
//
//	internal/subject/NAME        the checks and the facts they report, in both binaries
//	internal/subject/NAME/ask    runs a check on the node, and returns probe.Results; in the probe only
//	internal/subject/NAME/api    runs the subject's checks of the API, over a cluster.Snapshot; in the client only
//	internal/subject/NAME/cause  reads all results, and names the causes of bad ones; in the client only
//
// Node is the entry point. This package runs no check: packages suite/ask and suite/api join the packages that do.
package suite

import (
	"slices"

	"github.com/calico-probe/calico-probe/internal/subject/bgp"
	"github.com/calico-probe/calico-probe/internal/subject/cni"
	"github.com/calico-probe/calico-probe/internal/subject/datastore"
	"github.com/calico-probe/calico-probe/internal/subject/dns"
	"github.com/calico-probe/calico-probe/internal/subject/felix"
	"github.com/calico-probe/calico-probe/internal/subject/firewall"
	"github.com/calico-probe/calico-probe/internal/subject/host"
	"github.com/calico-probe/calico-probe/internal/subject/kubelet"
	"github.com/calico-probe/calico-probe/internal/subject/link"
	"github.com/calico-probe/calico-probe/internal/subject/nodestate"
	"github.com/calico-probe/calico-probe/internal/subject/overlay"
	"github.com/calico-probe/calico-probe/internal/subject/pod"
	"github.com/calico-probe/calico-probe/internal/subject/route"
	"github.com/calico-probe/calico-probe/internal/subject/runtime"
	"github.com/calico-probe/calico-probe/internal/subject/service"
	"github.com/calico-probe/calico-probe/internal/subject/start"
	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/probe/logs"
)

// Node lists the checks of a node in display order. The order is not about dependencies, which are in a check's Needs.
func Node() []*probe.Check {
	return slices.Concat(
		felix.Checks(), bgp.Checks(), // does Calico run on the node?
		link.Checks(), pod.Checks(), service.Checks(), // the paths that users need
		route.Checks(), overlay.Checks(), firewall.Checks(), // the kernel's packet handling, which explains the paths
		datastore.Checks(), dns.Checks(), runtime.Checks(), kubelet.Checks(), start.Checks(), cni.Checks(), // what they need
		logs.Checks(), host.Checks(), // logs, and the machine itself
		nodestate.Checks(), // for comparison with a baseline node
	)
}
