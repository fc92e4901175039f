package cluster

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// perList is how many nodes one answer has when only a part of each is kept.
const perList = 500

// Conditions are those of one type, by the names of the nodes that have it and the labels of a selector, "" = all.
func (c *Client) Conditions(ctx context.Context, kind, selector string) (map[string]corev1.NodeCondition, error) {
	ctx, cancel := context.WithTimeout(ctx, readLimit)
	defer cancel()
	out := map[string]corev1.NodeCondition{}
	for options := (metav1.ListOptions{LabelSelector: selector, Limit: perList}); ; {
		list, err := c.kube.CoreV1().Nodes().List(ctx, options)
		if err != nil {
			return nil, err
		}
		for _, n := range list.Items {
			for _, has := range n.Status.Conditions {
				if string(has.Type) == kind {
					out[n.Name] = has
				}
			}
		}
		if options.Continue = list.Continue; options.Continue == "" {
			return out, nil
		}
	}
}
