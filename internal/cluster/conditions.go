package cluster

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// perList is the number of nodes per response for lists that keep only a part of each node.
const perList = 500

// A NodeCondition holds one condition and one annotation of a node. Both may be empty.
type NodeCondition struct {
	corev1.NodeCondition
	Annotation string
}

// Conditions lists one condition and one annotation of each node that the selector selects. The selector "" selects all
// nodes. The result includes nodes that have neither.
func (c *Client) Conditions(ctx context.Context, kind, annotation, selector string) (map[string]NodeCondition, error) {
	return patiently(ctx, c, func(ctx context.Context) (map[string]NodeCondition, error) {
		return c.conditions(ctx, kind, annotation, selector)
	})
}

func (c *Client) conditions(ctx context.Context, kind, annotation, selector string) (map[string]NodeCondition, error) {
	out := map[string]NodeCondition{}
	for options := (metav1.ListOptions{LabelSelector: selector, Limit: perList}); ; {
		list, err := c.kube.CoreV1().Nodes().List(ctx, options)
		if err != nil {
			return nil, err
		}
		for _, n := range list.Items {
			of := NodeCondition{Annotation: n.Annotations[annotation]}
			for _, has := range n.Status.Conditions {
				if string(has.Type) == kind {
					of.NodeCondition = has
				}
			}
			out[n.Name] = of
		}
		if options.Continue = list.Continue; options.Continue == "" {
			return out, nil
		}
	}
}
