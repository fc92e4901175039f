package cluster

import (
	"context"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// readUnplaced finds the calico-node pod that the DaemonSet created for the node but that no scheduler has bound. It
// returns nil if there is none.
func (c *Client) readUnplaced(ctx context.Context, node string) (*corev1.Pod, error) {
	list, err := c.kube.CoreV1().Pods(metav1.NamespaceAll).List(ctx, metav1.ListOptions{
		LabelSelector: CalicoPods, FieldSelector: "spec.nodeName=,status.phase=Pending",
	})
	if err != nil {
		return nil, fmt.Errorf("listing pods without a node: %w", err)
	}
	for i := range list.Items {
		p := &list.Items[i]
		owner := metav1.GetControllerOf(p)
		if owner == nil || owner.Kind != "DaemonSet" || p.Spec.NodeName != "" || !slices.Contains(c.CalicoIn,
			p.Namespace) {
			continue
		}
		a := p.Spec.Affinity
		if a == nil || a.NodeAffinity == nil || a.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution == nil {
			continue
		}
		terms := a.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution.NodeSelectorTerms
		if slices.ContainsFunc(terms, func(t corev1.NodeSelectorTerm) bool { return isFor(t, node) }) {
			return p, nil
		}
	}
	return nil, nil
}

// isFor reports whether this is the affinity term that the DaemonSet controller uses to assign a pod to the node.
func isFor(t corev1.NodeSelectorTerm, node string) bool {
	return slices.ContainsFunc(t.MatchFields, func(e corev1.NodeSelectorRequirement) bool {
		return e.Key == metav1.ObjectNameField && e.Operator == corev1.NodeSelectorOpIn &&
			slices.Contains(e.Values, node)
	})
}

// TooMuch returns the pod's requests that exceed the node's total allocatable resources, or "" if there are none.
func TooMuch(p *corev1.Pod, n *corev1.Node) string {
	var out []string
	for _, name := range []corev1.ResourceName{corev1.ResourceCPU, corev1.ResourceMemory,
		corev1.ResourceEphemeralStorage} {
		have, known := n.Status.Allocatable[name]
		var asks resource.Quantity
		for _, c := range p.Spec.Containers {
			asks.Add(c.Resources.Requests[name])
		}
		for _, c := range p.Spec.InitContainers {
			if first := c.Resources.Requests[name]; first.Cmp(asks) > 0 {
				asks = first
			}
		}
		if known && asks.Cmp(have) > 0 {
			out = append(out, fmt.Sprintf("it requests %s %s, and the node has %s for pods", name,
				asks.String(), have.String()))
		}
	}
	return strings.Join(out, "; ")
}
