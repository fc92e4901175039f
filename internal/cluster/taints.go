package cluster

import (
	"context"
	"fmt"
	"regexp"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// startsTaint matches the keys of a node's initial taints. A controller removes such a taint after it has initialized
// the node: node.cloudprovider.kubernetes.io/uninitialized, node.cluster.x-k8s.io/uninitialized,
// ebs.csi.aws.com/agent-not-ready, node.cilium.io/agent-not-ready, karpenter.sh/unregistered.
var startsTaint = regexp.MustCompile(`/(?:uninitialized|unregistered|unprovisioned|[\w.-]*agent-not-ready|startup|not-initialized|initializing)$`)

// maxKept is the maximum number of unscheduled pods to read.
const maxKept = 500

// StartTaints returns the node's initial taints that no controller has removed yet.
func StartTaints(n *corev1.Node) []corev1.Taint {
	return slices.DeleteFunc(slices.Clone(n.Spec.Taints), func(t corev1.Taint) bool {
		return strings.HasPrefix(t.Key, "node.kubernetes.io/") || !startsTaint.MatchString(t.Key) ||
			t.Effect == corev1.TaintEffectPreferNoSchedule
	})
}

// readKept lists the unscheduled pods.
func (c *Client) readKept(ctx context.Context) ([]corev1.Pod, error) {
	list, err := c.kube.CoreV1().Pods(metav1.NamespaceAll).List(ctx, metav1.ListOptions{
		FieldSelector: "spec.nodeName=,status.phase=Pending", Limit: maxKept,
	})
	if err != nil {
		return nil, fmt.Errorf("listing pods without a node: %w", err)
	}
	return list.Items, nil
}
