//go:build e2e

package e2e

import (
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
)

// TestFingerprint requires that the comparison sees each change of a foreign pod. It must ignore fields that Kubernetes
// rewrites, and our own ephemeral container.
func TestFingerprint(t *testing.T) {
	ephemeral := func(name string) func(*corev1.Pod) {
		return func(p *corev1.Pod) {
			p.Spec.EphemeralContainers = append(p.Spec.EphemeralContainers, corev1.EphemeralContainer{
				EphemeralContainerCommon: corev1.EphemeralContainerCommon{Name: name},
			})
		}
	}
	printOf := func(change func(*corev1.Pod)) string {
		t.Helper()
		running := corev1.ContainerStatus{Name: "work", ContainerID: "containerd://1"}
		pod := &corev1.Pod{
			TypeMeta: metav1.TypeMeta{Kind: "Pod", APIVersion: "v1"},
			ObjectMeta: metav1.ObjectMeta{
				Name: "somebodys", Namespace: "default", UID: "1", Labels: map[string]string{"app": "web"},
			},
			Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "work", Image: "web:1"}}},
			Status: corev1.PodStatus{
				Phase: corev1.PodRunning, ContainerStatuses: []corev1.ContainerStatus{running},
				InitContainerStatuses: []corev1.ContainerStatus{{Name: "first", ContainerID: "containerd://2"}},
			},
		}
		change(pod)
		object, err := runtime.DefaultUnstructuredConverter.ToUnstructured(pod)
		if err != nil {
			t.Fatal(err)
		}
		return fingerprint(t, unstructured.Unstructured{Object: object})
	}
	was := printOf(func(*corev1.Pod) {})
	for name, c := range map[string]struct {
		change func(*corev1.Pod)
		seen   bool
	}{
		"another pod of the name": {func(p *corev1.Pod) { p.UID = "2" }, true},
		"a restarted container":   {func(p *corev1.Pod) { p.Status.ContainerStatuses[0].RestartCount++ }, true},
		"a container in its place": {func(p *corev1.Pod) {
			p.Status.ContainerStatuses[0].ContainerID = "containerd://3"
		}, true},
		"a restarted init container": {func(p *corev1.Pod) { p.Status.InitContainerStatuses[0].RestartCount++ }, true},
		"a changed spec":             {func(p *corev1.Pod) { p.Spec.Containers[0].Image = "web:2" }, true},
		"a toleration": {func(p *corev1.Pod) { p.Spec.Tolerations = []corev1.Toleration{{Key: "x"}} },
			true},
		"a label":       {func(p *corev1.Pod) { p.Labels["e2e"] = "x" }, true},
		"an annotation": {func(p *corev1.Pod) { p.Annotations = map[string]string{"e2e": "x"} }, true},
		"an owner": {func(p *corev1.Pod) { p.OwnerReferences = []metav1.OwnerReference{{Name: "x"}} },
			true},
		"a finalizer":                    {func(p *corev1.Pod) { p.Finalizers = []string{"x"} }, true},
		"somebody's ephemeral container": {ephemeral("debugger"), true},
		"our ephemeral container":        {ephemeral("calico-probe-00000001"), false},
		"a resource version":             {func(p *corev1.Pod) { p.ResourceVersion, p.Generation = "2", 2 }, false},
		"a condition": {func(p *corev1.Pod) {
			p.Status.Conditions = []corev1.PodCondition{{Type: "Ready"}}
		}, false},
	} {
		if now := printOf(c.change); (now != was) != c.seen {
			t.Errorf("%s: seen is %v, want %v\n%s\n%s", name, now != was, c.seen, was, now)
		}
	}
}

// TestChanged requires one line for each deleted, new or changed object, with its name, and no line for unchanged
// objects.
func TestChanged(t *testing.T) {
	before := others{objects: map[string]string{"Pod default a": "1", "Pod default b": "1", "Pod default c": "1"}}
	if said := before.changed(before); len(said) > 0 {
		t.Errorf("nothing was changed: %q", said)
	}
	said := before.changed(others{objects: map[string]string{
		"Pod default a": "1", "Pod default b": "2", "Pod default d": "1",
	}})
	for i, want := range []string{"Pod default b was changed", "Pod default c is gone", "Pod default d is new and not ours"} {
		if len(said) != 3 || !strings.HasPrefix(said[i], want) {
			t.Errorf("want %q and two more: %q", want, said)
		}
	}
}

// TestHarmed requires every event by which an existing pod is ended or moved, with its time in any field. It must
// ignore older, unrelated and harmless events.
func TestHarmed(t *testing.T) {
	taken := time.Now()
	before := others{known: map[types.UID]bool{"1": true}, taken: taken}
	event := func(reason string, about types.UID, last time.Time) corev1.Event {
		return corev1.Event{
			Reason: reason, LastTimestamp: metav1.NewTime(last),
			InvolvedObject: corev1.ObjectReference{Kind: "Pod", Namespace: "default", Name: "somebodys", UID: about},
		}
	}
	later := taken.Add(5 * time.Second)
	for _, reason := range []string{
		"Preempting", "Preempted", "Killing", "Evicted", "TaintManagerEviction", "NodeControllerEviction",
	} {
		if said := before.harmed([]corev1.Event{event(reason, "1", later)}); len(said) != 1 ||
			!strings.Contains(said[0], reason+" about Pod default/somebodys") {
			t.Errorf("%s: %q", reason, said)
		}
	}
	byEventTime := event("Evicted", "1", time.Time{})
	byEventTime.EventTime = metav1.NewMicroTime(later)
	if said := before.harmed([]corev1.Event{byEventTime}); len(said) != 1 {
		t.Errorf("an event that has only an eventTime: %q", said)
	}
	harmless := []corev1.Event{
		event("Killing", "1", taken.Add(-5*time.Second)), event("Killing", "2", later), event("Pulled", "1", later),
	}
	if said := before.harmed(harmless); len(said) > 0 {
		t.Errorf("harmless: %q", said)
	}
}
