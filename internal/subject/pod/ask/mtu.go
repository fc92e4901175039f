package ask

import (
	"context"

	"github.com/calico-probe/calico-probe/internal/subject/pod"
	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/probe/node"
	"github.com/calico-probe/calico-probe/probe/reach"
)

// podMTUCheck binds pod.PodMTU to the function that runs it.
var podMTUCheck = answers.To(pod.PodMTU, podMTUs)

func podMTUs(ctx context.Context, p *probe.Pass) {
	targets := node.Elsewhere(node.Unique(p.Of(probe.KindPod)))
	if len(targets) == 0 {
		p.Report(node.Gap(p, probe.KindPod, "no running workload pod found on another node"))
		return
	}
	node.Each(targets, func(t probe.Target) {
		r := reach.PathMTU(ctx, t.Addr)
		p.Report(node.About(r, t).On(t.String()).With(probe.FactFamily, node.Family(t.Addr)).With(probe.FactNode, t.Node))
	})
}
