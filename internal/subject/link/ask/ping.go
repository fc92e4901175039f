package ask

import (
	"context"

	"github.com/calico-probe/calico-probe/internal/subject/link"
	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/probe/node"
	"github.com/calico-probe/calico-probe/probe/reach"
)

// nodePingCheck binds link.NodePing to the function that runs it.
var nodePingCheck = answers.To(link.NodePing, func(ctx context.Context, p *probe.Pass) {
	reach.Ping(ctx, p, node.Unique(p.Of(probe.KindNode, probe.KindPeer)), probe.KindNode, "no other node found")
})
