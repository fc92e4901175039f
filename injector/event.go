package injector

import (
	"context"
	"fmt"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/record"

	"github.com/calico-probe/calico-probe/probe"
)

// Teller writes events on nodes. Like a controller's it counts what it has said before
// instead of saying it again, and stops when one node gets too many.
type Teller struct {
	client *Client
	mu     sync.Mutex
	like   *record.EventCorrelator
}

// NewTeller returns a Teller that remembers nothing yet.
func NewTeller(c *Client) *Teller {
	return &Teller{client: c, like: record.NewEventCorrelatorWithOptions(record.CorrelatorOptions{})}
}

// longestNote is what the API takes of an event's message, in bytes.
const longestNote = 1024

// Tell writes an event on a node; false = the node was told often enough of late.
func (t *Teller) Tell(ctx context.Context, node string, warning bool, reason, note string) (bool, error) {
	t.mu.Lock() // what is like what is known once it is written
	defer t.mu.Unlock()
	now := metav1.Now()
	ev := &corev1.Event{
		ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("%s.%x", node, time.Now().UnixNano()), Namespace: metav1.NamespaceDefault},
		// The events of nodes have the node's name for its UID: kubelets began it, and
		// 'kubectl describe node' of every release looks there.
		InvolvedObject: corev1.ObjectReference{Kind: "Node", Name: node, UID: types.UID(node)},
		Type:           corev1.EventTypeNormal, Reason: reason, Message: probe.Cut(note, longestNote),
		Source: corev1.EventSource{Component: managedBy}, ReportingController: "calico-probe.io/serve",
		FirstTimestamp: now, LastTimestamp: now, Count: 1,
	}
	if warning {
		ev.Type = corev1.EventTypeWarning
	}
	known, err := t.like.EventCorrelate(ev)
	if err != nil {
		return false, fmt.Errorf("an event on node %s: %w", node, err)
	}
	if known.Skip {
		return false, nil
	}
	events := t.client.kube.CoreV1().Events(metav1.NamespaceDefault)
	var written *corev1.Event
	again := known.Event.Count > 1
	if again {
		written, err = events.Patch(ctx, known.Event.Name, types.StrategicMergePatchType, known.Patch, metav1.PatchOptions{})
	}
	if !again || apierrors.IsNotFound(err) { // the API forgets events after an hour
		known.Event.ResourceVersion = ""
		written, err = events.Create(ctx, known.Event, metav1.CreateOptions{})
	}
	if err != nil {
		return false, fmt.Errorf("writing an event on node %s: %w", node, err)
	}
	t.like.UpdateState(written)
	return true, nil
}
