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

// Teller writes events on nodes, and stops when one node gets too many.
type Teller struct {
	client *Client
	often  *record.EventSourceObjectSpamFilter
}

// How many events a node gets at once, how often another one after that, and of how many
// nodes that is known: as of what client-go's recorder lets through.
const (
	toldAtOnce = 25
	toldEvery  = 5 * time.Minute
	toldNodes  = 4096
)

// NewTeller returns a Teller that remembers nothing yet.
func NewTeller(c *Client) *Teller {
	return &Teller{c, record.NewEventSourceObjectSpamFilter(toldNodes, toldAtOnce, float32(1/toldEvery.Seconds()), clock.RealClock{},
		func(ev *corev1.Event) string { return ev.InvolvedObject.Name })}
}

// longestNote is what the API takes of an event's message, in bytes.
const longestNote = 1024

// Tell writes an event on a node; false = the node was told often enough of late. The ID
// is that of what is told: said again, of another start of the program, it stays one event,
// which says what was said last.
func (t *Teller) Tell(ctx context.Context, id, node string, warning bool, reason, note string) (bool, error) {
	now := metav1.Now()
	ev := &corev1.Event{
		ObjectMeta: metav1.ObjectMeta{Name: managedBy + "." + id, Namespace: metav1.NamespaceDefault},
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
	if t.often.Filter(ev) {
		return false, nil
	}
	events := t.client.kube.CoreV1().Events(metav1.NamespaceDefault)
	_, err := events.Create(ctx, ev, metav1.CreateOptions{})
	if apierrors.IsAlreadyExists(err) {
		var patch []byte
		if patch, err = json.Marshal(map[string]any{"type": ev.Type, "reason": ev.Reason, "message": ev.Message, "lastTimestamp": now}); err == nil {
			_, err = events.Patch(ctx, ev.Name, types.MergePatchType, patch, metav1.PatchOptions{})
		}
	}
	if err != nil {
		return false, fmt.Errorf("writing an event on node %s: %w", node, err)
	}
	return true, nil
}
