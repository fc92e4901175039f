package cluster

import (
	"context"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
)

// eventsMost is how many events of one object are read.
const eventsMost = 50

// eventsOf lists events about an object.
func (c *Client) eventsOf(ctx context.Context, object metav1.Object) ([]corev1.Event, error) {
	return c.events(ctx, object.GetNamespace(), "involvedObject.uid="+string(object.GetUID()), eventsMost)
}

// events lists events of a namespace that a field selector picks.
func (c *Client) events(ctx context.Context, namespace, selector string, limit int64) ([]corev1.Event, error) {
	list, err := c.kube.CoreV1().Events(namespace).List(ctx, metav1.ListOptions{FieldSelector: selector, Limit: limit})
	if err != nil {
		return nil, err
	}
	return list.Items, nil
}

// aboutNode selects events about a node, which are in namespace default.
func aboutNode(node string) string {
	return "involvedObject.kind=Node,involvedObject.name=" + fields.EscapeValue(node)
}

func eventTime(e *corev1.Event) time.Time {
	t := e.EventTime.Time
	if e.Series != nil {
		t = e.Series.LastObservedTime.Time
	}
	return slices.MaxFunc([]time.Time{t, e.LastTimestamp.Time, e.CreationTimestamp.Time}, time.Time.Compare)
}
