package cluster

import (
	"context"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"

	"github.com/calico-probe/calico-probe/probe"
)

// nodeRemoved are the reasons of the events of the node lifecycle controllers, the cluster's and a cloud's, about a
// Node object that is gone or that they delete.
var nodeRemoved = map[string]bool{"RemovingNode": true, "DeletingNode": true}

// removed returns the last such event about a node that the cluster does not have, without a text where there is none
// or events cannot be listed: the node is unknown in any case.
func (c *Client) removed(ctx context.Context, node string) probe.Statement {
	list, err := c.kube.CoreV1().Events(metav1.NamespaceDefault).List(ctx, metav1.ListOptions{
		FieldSelector: fields.AndSelectors(fields.OneTermEqualSelector("involvedObject.kind", "Node"),
			fields.OneTermEqualSelector("involvedObject.name", node)).String(),
		Limit: eventsMost,
	})
	if err != nil {
		return probe.Statement{}
	}
	var out probe.Statement
	for i, e := range list.Items {
		if at := eventTime(&list.Items[i]); nodeRemoved[e.Reason] && !at.Before(out.At) {
			out = probe.Statement{Text: probe.Quoted(e.Message), At: at}
		}
	}
	return out
}
