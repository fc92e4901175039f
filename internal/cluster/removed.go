package cluster

import (
	"context"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/calico-probe/calico-probe/probe"
)

// nodeRemoved are the event reasons of the node lifecycle controllers, the cluster's and a cloud's, about a Node
// object that is deleted or that they delete.
var nodeRemoved = map[string]bool{"RemovingNode": true, "DeletingNode": true}

// removed returns the last such event about a node that the cluster lacks. It has no text if there is none or events
// cannot be listed: the node is unknown in any case.
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
