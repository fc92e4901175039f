package cluster

import (
	"context"
	"regexp"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"

	"github.com/calico-probe/calico-probe/probe"
)

// maxEvents is the maximum number of events to read for one object.
const maxEvents = 50

// eventsOf lists events about an object.
func (c *Client) eventsOf(ctx context.Context, object metav1.Object) ([]corev1.Event, error) {
	return c.events(ctx, object.GetNamespace(), "involvedObject.uid="+string(object.GetUID()), maxEvents)
}

// events lists the events in a namespace that a field selector selects.
func (c *Client) events(ctx context.Context, namespace, selector string, limit int64) ([]corev1.Event, error) {
	list, err := c.kube.CoreV1().Events(namespace).List(ctx, metav1.ListOptions{FieldSelector: selector, Limit: limit})
	if err != nil {
		return nil, err
	}
	return list.Items, nil
}

// aboutNode returns a selector for events about a node. These events are in namespace default.
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

// LongestEvent is the maximum length of a message in bytes. The kubelet and the API server truncate messages well below
// it.
const LongestEvent = 16 << 10

// GeneralText removes the parts of a message that differ between pods of one group: pod names, sandbox and container
// IDs, addresses and times.
func GeneralText(w Waiter, text string) string {
	text = probe.OneLine(text[:min(len(text), LongestEvent)])
	uid := string(w.Pod.UID)
	for _, name := range []string{w.Pod.Namespace + "/" + w.Pod.Name, w.Pod.Name, uid,
		strings.ReplaceAll(uid, "-", "_")} { // as in the name of a systemd slice
		if len(name) > 3 {
			text = strings.ReplaceAll(text, name, "POD")
		}
	}
	for _, x := range idsIn {
		text = x.find.ReplaceAllString(text, x.with)
	}
	return text
}

var idsIn = []struct {
	find *regexp.Regexp
	with string
}{
	{regexp.MustCompile(` ?"[0-9a-f]{12,64}"`), ""},
	{regexp.MustCompile(`\b[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\b`), "ID"},
	{regexp.MustCompile(`\b[0-9a-f]{24,64}\b`), "ID"},
	{regexp.MustCompile(`POD(_POD)?_[\w-]+`), "POD"},
	{regexp.MustCompile(`(\d+\.\d+\.\d+\.\d+|\]):\d{5}->`), "$1->"},
	{regexp.MustCompile(`back-off \S+ `), ""},
}
