package ask

import (
	"cmp"
	"context"
	"fmt"
	"net/netip"
	"time"

	"github.com/calico-probe/calico-probe/internal/subject/pod"
	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/probe/node"
	"github.com/calico-probe/calico-probe/probe/reach"
)

// podTCPCheck binds pod.PodTCP to the function that runs it.
var podTCPCheck = answers.To(pod.PodTCP, podTCP)

// unusedPort is the TCPMUX port (RFC 1078), on which practically no program listens. A reset from
// it proves that the path works.
const unusedPort = 1

func podTCP(ctx context.Context, p *probe.Pass) {
	node.Each([]func(context.Context, *probe.Pass){ownNode, otherPods}, func(run func(context.Context, *probe.Pass)) {
		run(ctx, p)
	})
}

func otherPods(ctx context.Context, p *probe.Pass) {
	targets := node.Elsewhere(node.Unique(p.Of(probe.KindPod, probe.KindLocal)))
	if len(targets) == 0 {
		p.Report(node.Gap(p, probe.KindPod, "no other running workload pod found"))
		return
	}
	node.Each(targets, func(t probe.Target) {
		to := netip.AddrPortFrom(t.Addr, uint16(cmp.Or(t.Port, unusedPort)))
		c := reach.Connect(ctx, to)
		r := acceptRefusal(c.Result(ctx), c, t.Port != 0)
		p.Report(node.About(r, t).On(t.String()).With(probe.FactFamily, node.Family(t.Addr)).With(probe.FactNode, t.Node).
			With(probe.FactPort, int(to.Port())).With(pod.FactDeclared, t.Port != 0))
	})
}

// acceptRefusal turns a refused connection into a good result, because the refusal proves that the path works.
func acceptRefusal(r probe.Result, c reach.Connection, declared bool) probe.Result {
	if r.Status != probe.Fail || c.Reason() != "refused" {
		return r
	}
	r.Status = probe.OK
	r.Saw = fmt.Sprintf("reachable in %v (reset from unused port %d)", c.Took.Round(10*time.Microsecond), c.To.Port())
	if declared {
		r.Status = probe.Info
		r.Saw = fmt.Sprintf("reachable in %v, but nothing listens on its port %d", c.Took.Round(10*time.Microsecond),
			c.To.Port())
	}
	return r
}
