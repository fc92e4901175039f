package injector

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/record"
	"k8s.io/utils/clock"

	"github.com/calico-probe/calico-probe/probe"
)

// EventWriter writes events on nodes. It drops a node's events if the node gets too many.
type EventWriter struct {
	client *Client
	spam   *record.EventSourceObjectSpamFilter
}

// Limits as in client-go's recorder: a node's burst of events, the interval of further events, and the number of
// counted nodes.
const (
	eventBurst = 25
	eventEvery = 5 * time.Minute
	eventNodes = 4096
)

// NewEventWriter returns an EventWriter without a history.
func NewEventWriter(c *Client) *EventWriter {
	perSecond := float32(1 / eventEvery.Seconds())
	byNode := func(ev *corev1.Event) string { return ev.InvolvedObject.Name }
	return &EventWriter{
		c, record.NewEventSourceObjectSpamFilter(eventNodes, eventBurst, perSecond, clock.RealClock{}, byNode),
	}
}

// maxNote is the API's limit for an event's message, in bytes.
const maxNote = 1024

// Write writes an event on a node. It returns false if it dropped the event because the node recently had too many
// events. The ID identifies the subject. A later Write with the same ID, even after this program restarts, updates that
// event's message.
func (t *EventWriter) Write(ctx context.Context, id, node string, warning bool, reason, note string) (bool, error) {
	now := metav1.Now()
	ev := &corev1.Event{
		ObjectMeta: metav1.ObjectMeta{Name: managedBy + "." + id, Namespace: metav1.NamespaceDefault},
		// Events of nodes use the node's name as UID: kubelets do, and every release of 'kubectl describe node' expects it.
		InvolvedObject: corev1.ObjectReference{Kind: "Node", Name: node, UID: types.UID(node)},
		Type:           corev1.EventTypeNormal, Reason: reason, Message: probe.Cut(note, maxNote),
		Source: corev1.EventSource{Component: managedBy}, ReportingController: "calico-probe.io/serve",
		FirstTimestamp: now, LastTimestamp: now, Count: 1,
	}
	if warning {
		ev.Type = corev1.EventTypeWarning
	}
	if t.spam.Filter(ev) {
		return false, nil
	}
	events := t.client.kube.CoreV1().Events(metav1.NamespaceDefault)
	_, err := events.Create(ctx, ev, metav1.CreateOptions{})
	if apierrors.IsAlreadyExists(err) {
		var patch []byte
		if patch, err = json.Marshal(map[string]any{
			"type": ev.Type, "reason": ev.Reason, "message": ev.Message, "lastTimestamp": now,
		}); err == nil {
			_, err = events.Patch(ctx, ev.Name, types.MergePatchType, patch, metav1.PatchOptions{})
		}
	}
	if err != nil {
		return false, fmt.Errorf("writing an event on node %s: %w", node, err)
	}
	return true, nil
}
