// Package cause joins the causes of all subjects in the order in which they are weighed. The client alone links it.
package cause

import (
	"slices"
	"sync"

	"github.com/calico-probe/calico-probe/internal/diagnose"
	bgpcause "github.com/calico-probe/calico-probe/internal/subject/bgp/cause"
	cnicause "github.com/calico-probe/calico-probe/internal/subject/cni/cause"
	datastorecause "github.com/calico-probe/calico-probe/internal/subject/datastore/cause"
	dnscause "github.com/calico-probe/calico-probe/internal/subject/dns/cause"
	"github.com/calico-probe/calico-probe/internal/subject/evidence"
	felixcause "github.com/calico-probe/calico-probe/internal/subject/felix/cause"
	firewallcause "github.com/calico-probe/calico-probe/internal/subject/firewall/cause"
	hostcause "github.com/calico-probe/calico-probe/internal/subject/host/cause"
	kubeletcause "github.com/calico-probe/calico-probe/internal/subject/kubelet/cause"
	"github.com/calico-probe/calico-probe/internal/subject/link"
	linkcause "github.com/calico-probe/calico-probe/internal/subject/link/cause"
	nodestatecause "github.com/calico-probe/calico-probe/internal/subject/nodestate/cause"
	overlaycause "github.com/calico-probe/calico-probe/internal/subject/overlay/cause"
	placementcause "github.com/calico-probe/calico-probe/internal/subject/placement/cause"
	podcause "github.com/calico-probe/calico-probe/internal/subject/pod/cause"
	routecause "github.com/calico-probe/calico-probe/internal/subject/route/cause"
	runtimecause "github.com/calico-probe/calico-probe/internal/subject/runtime/cause"
	servicecause "github.com/calico-probe/calico-probe/internal/subject/service/cause"
	startcause "github.com/calico-probe/calico-probe/internal/subject/start/cause"
)

// rules are the rules of all subjects, read once and shared. If two causes are equal in diagnose.Explain's sort keys,
// the earlier rule is first. A subject precedes the subjects that depend on it. Within a subject, IDs are in
// alphabetical order.
var rules = sync.OnceValue(func() []*diagnose.Rule {
	return slices.Concat(
		kubeletcause.Rules(), runtimecause.Rules(), hostcause.Rules(), // without them nothing runs on the node
		placementcause.Rules(), startcause.Rules(), cnicause.Rules(), // calico-node does not start
		datastorecause.Rules(), felixcause.Rules(), // nor work
		servicecause.Rules(), dnscause.Rules(),
		linkcause.Rules(), bgpcause.Rules(), routecause.Rules(), overlaycause.Rules(), // what carries packets, lowest first
		firewallcause.Rules(), podcause.Rules(), // what may be meant to stop them
		nodestatecause.Rules(), // a difference to a healthy node, if no other cause fits
	)
})

// All returns all rules in order, and the subject data that the engine needs.
func All() diagnose.Suite {
	return diagnose.Suite{Rules: rules(), Lost: evidence.LostTowards, Paths: evidence.PathChecks,
		Whole: link.NodeUplink.ID, Implies: evidence.Closes}
}
