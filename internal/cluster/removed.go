package cluster

import (
	"context"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/calico-probe/calico-probe/probe"
)

// nodeRemoved lists the event reasons for a deleted Node object that the node lifecycle controllers of Kubernetes and
// of clouds use.
var nodeRemoved = map[string]bool{"RemovingNode": true, "DeletingNode": true}

// removed returns the last such event about a node that the cluster no longer has. The text is empty if there is no
// event, or if events cannot be listed: the node is unknown in any case.
func (c *Client) removed(ctx context.Context, node string) probe.Statement {
	events, err := c.events(ctx, metav1.NamespaceDefault, aboutNode(node), maxEvents)
	if err != nil {
		return probe.Statement{}
	}
	var out probe.Statement
	for i, e := range events {
		if at := eventTime(&events[i]); nodeRemoved[e.Reason] && !at.Before(out.At) {
			out = probe.Statement{Text: probe.Quoted(e.Message), At: at}
		}
	}
	return out
}
