package cluster

import (
	"fmt"
	"net/http"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/calico-probe/calico-probe/probe"
)

// hanging is a pod bound to the node for a while, whose container waits for a reason.
func hanging(name string, age time.Duration, reason, says string) corev1.Pod {
	p := corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, UID: types.UID(name + "-uid")}}
	p.CreationTimestamp = ago(age)
	p.Status.Phase = corev1.PodPending
	p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionTrue,
		LastTransitionTime: ago(age)}}
	p.Spec.Containers = []corev1.Container{{Name: "c", Image: name + ".example:5000/app:1"}}
	if reason != "" {
		p.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "c",
			State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: reason, Message: says}}}}
	}
	return p
}

// TestReadPlaced requires that only events of waiting pods are read.
func TestReadPlaced(t *testing.T) {
	var asked []string
	c := serverOf(t, map[string]string{
		"/api/v1/pods": `{"kind":"PodList","items":[{"metadata":{"namespace":"default","name":"a","uid":"1"},"spec":{"nodeName":"node-a"},"status":{"phase":"Pending","containerStatuses":[{"name":"c","state":{"waiting":{"reason":"ContainerCreating"}}}]}},{"metadata":{"namespace":"default","name":"b","uid":"2"},"status":{"phase":"Running","containerStatuses":[{"name":"c","state":{"running":{}}}]}}]}`,
	}, map[string]http.HandlerFunc{"/api/v1/namespaces/default/events": func(w http.ResponseWriter, r *http.Request) {
		asked = append(asked, r.URL.Query().Get("fieldSelector"))
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprint(w, `{"kind":"EventList","items":[{"reason":"FailedCreatePodSandBox","message":"one","source":{"component":"kubelet","host":"node-a"},"lastTimestamp":"2026-11-22T12:00:01Z"},{"reason":"FailedCreatePodSandBox","message":"a tenant's","source":{"component":"tenant"},"lastTimestamp":"2076-11-22T12:00:01Z"},{"reason":"FailedCreatePodSandBox","message":"another node's","source":{"component":"kubelet","host":"node-b"},"lastTimestamp":"2026-11-22T12:00:03Z"},{"reason":"FailedMount","message":"before","source":{"component":"kubelet","host":"node-a"},"lastTimestamp":"2026-11-22T12:00:00Z"},{"reason":"BackOff","message":"after","source":{"component":"kubelet","host":"node-a"},"lastTimestamp":"2026-11-22T12:00:02Z"}]}`)
	}})
	got := c.readPlaced(t.Context(), "node-a")
	var all probe.Workers
	c.ReadWaits(t.Context(), &got, &all)
	all.Wait()
	if len(got.Pods.Value) != 2 || len(got.Waiting.Value) != 1 || !slices.Equal(asked, []string{"involvedObject.uid=1"}) {
		t.Fatalf("%+v, asked %v", got, asked)
	}
	if last := got.Waiting.Value[0].Last; last == nil || last.Message != "one" {
		t.Errorf("%+v", last)
	}
}

// TestLastWord requires the last event of the node's kubelet that shows a pod's progress, and no event of another
// source.
func TestLastWord(t *testing.T) {
	t.Parallel()
	event := func(age time.Duration, host, reason string) corev1.Event {
		return corev1.Event{Reason: reason, Source: corev1.EventSource{Component: "kubelet", Host: host},
			LastTimestamp: ago(age)}
	}
	events := []corev1.Event{event(3*time.Minute, "a", EventSandbox), event(2*time.Minute, "a", EventCgroup),
		event(time.Minute, "a", "BackOff"), event(time.Second, "b", EventMount)}
	if got := lastWord(events, "a"); got == nil || got.Reason != EventCgroup {
		t.Errorf("%+v", got)
	}
}
