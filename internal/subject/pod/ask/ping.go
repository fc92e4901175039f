package ask

import (
	"context"

	"github.com/calico-probe/calico-probe/internal/subject/pod"
	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/probe/node"
	"github.com/calico-probe/calico-probe/probe/reach"
)

// podPingCheck binds pod.PodPing to the function that runs it.
var podPingCheck = answers.To(pod.PodPing, func(ctx context.Context, p *probe.Pass) {
	reach.Ping(ctx, p, node.Elsewhere(node.Unique(p.Of(probe.KindPod, probe.KindLocal))), probe.KindPod,
		"no other running workload pod found")
})
