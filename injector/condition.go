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

// WriteCondition writes one condition and one annotation of a node, and nothing else. If condition is nil, it does not
// change the condition. If the annotation's value is "", it removes the annotation. It succeeds if the node does not
// exist.
func (c *Client) WriteCondition(ctx context.Context, node string, condition *corev1.NodeCondition, key,
	value string) error {
	if condition == nil {
		return c.patchNode(ctx, node, nil, key, value)
	}
	return c.patchNode(ctx, node, condition, key, value)
}

// RemoveCondition removes one condition and one annotation from a node.
func (c *Client) RemoveCondition(ctx context.Context, node, kind, key string) error {
	return c.patchNode(ctx, node, map[string]any{"type": kind, "$patch": "delete"}, key, "")
}

func (c *Client) patchNode(ctx context.Context, node string, condition any, key, value string) error {
	annotation := map[string]any{key: nil}
	if value != "" {
		annotation[key] = value
	}
	body := map[string]any{"metadata": map[string]any{"annotations": annotation}}
	if condition != nil {
		body["status"] = map[string]any{"conditions": []any{condition}}
	}
	patch, err := json.Marshal(body)
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
