// Package suite joins the checks of all subjects that are asked on a node. Both binaries show them in this order; what
// answers them is in the ask packages, which the probe alone links.
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

// Node lists the checks of a node in the order in which they are shown. What a check needs is named by its Needs and
// not by this order.
func Node() []*probe.Check {
	return slices.Concat(
		felix.Checks(), bgp.Checks(), // whether Calico lives on the node
		link.Checks(), pod.Checks(), service.Checks(), // the paths that people miss
		route.Checks(), overlay.Checks(), firewall.Checks(), // what the kernel does with packets, which explains them
		datastore.Checks(), dns.Checks(), runtime.Checks(), kubelet.Checks(), start.Checks(), cni.Checks(), // what they need
		logs.Checks(), host.Checks(), // what was logged, and the machine below
		nodestate.Checks(), // for comparison with a baseline node: it judges nothing
	)
}
