package injector

import (
	"context"
	"encoding/json"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// WriteCondition writes one condition of a node, and nothing else of it. A node that is gone is none to write on.
func (c *Client) WriteCondition(ctx context.Context, node string, condition corev1.NodeCondition) error {
	return c.patchConditions(ctx, node, condition)
}

// RemoveCondition takes one condition from a node.
func (c *Client) RemoveCondition(ctx context.Context, node, kind string) error {
	return c.patchConditions(ctx, node, map[string]any{"type": kind, "$patch": "delete"})
}

func (c *Client) patchConditions(ctx context.Context, node string, condition any) error {
	patch, err := json.Marshal(map[string]any{"status": map[string]any{"conditions": []any{condition}}})
	if err != nil {
		return fmt.Errorf("encoding a condition: %w", err)
	}
	_, err = c.kube.CoreV1().Nodes().Patch(ctx, node, types.StrategicMergePatchType, patch, metav1.PatchOptions{},
		"status")
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("writing the condition of node %s: %w", node, err)
	}
	return nil
}
