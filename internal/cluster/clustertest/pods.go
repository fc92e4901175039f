package clustertest

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	utiljson "k8s.io/apimachinery/pkg/util/json"

	"github.com/calico-probe/calico-probe/internal/cluster"
)

// KubeletEvent returns a kubelet event about calico-node's container.
func KubeletEvent(reason, message string, before time.Duration) corev1.Event {
	return corev1.Event{Reason: reason, Message: message, LastTimestamp: Ago(before),
		Source:         corev1.EventSource{Component: "kubelet", Host: "a"},
		InvolvedObject: corev1.ObjectReference{FieldPath: "spec.containers{calico-node}"}}
}

// Doomed returns a pod whose grace period ended some time ago.
func Doomed(namespace string, late time.Duration, change func(*corev1.Pod)) corev1.Pod {
	p := Hanging("app-"+namespace, time.Hour, "", "")
	p.Namespace, p.DeletionTimestamp = namespace, new(Ago(late))
	running := corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}
	p.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "c", State: running}}
	change(&p)
	return p
}

// SpecsOf parses specs by name. Numbers become int64, as in the API. It returns nil if the bytes are invalid.
func SpecsOf(b []byte) cluster.Specs {
	var out cluster.Specs
	if utiljson.Unmarshal(b, &out) != nil {
		return nil
	}
	return out
}

// FuzzedNodes returns two nodes, one with an annotation from the fuzzer.
func FuzzedNodes(annotation string) []corev1.Node {
	return []corev1.Node{
		{ObjectMeta: metav1.ObjectMeta{Name: "node-a", Labels: map[string]string{"rack": "1"}, Annotations: map[string]string{
			cluster.AnnotationIPv4: "10.0.0.1/24", cluster.AnnotationIPv6: "fd00::1/64"}}},
		{ObjectMeta: metav1.ObjectMeta{Name: "node-b", Annotations: map[string]string{
			cluster.AnnotationIPv4: annotation, cluster.AnnotationAS: annotation, cluster.AnnotationCluster: "1.0.0.1"}}},
	}
}

// Reported returns a kubelet event on node-a.
func Reported(before time.Duration, reason, message string) corev1.Event {
	return corev1.Event{Reason: reason, Message: message, LastTimestamp: Ago(before),
		Source: corev1.EventSource{Component: "kubelet", Host: "node-a"}}
}

// EventServer serves the events of one namespace.
func EventServer(t *testing.T, namespace string, events ...corev1.Event) *cluster.Client {
	t.Helper()
	kind := metav1.TypeMeta{Kind: "EventList", APIVersion: "v1"}
	text, err := json.Marshal(corev1.EventList{TypeMeta: kind, Items: events})
	if err != nil {
		t.Fatal(err)
	}
	return ServerOf(t, map[string]string{"/api/v1/namespaces/" + namespace + "/events": string(text)},
		map[string]http.HandlerFunc{})
}

// Hanging returns a pod that was bound to the node some time ago, with a waiting container.
func Hanging(name string, age time.Duration, reason, says string) corev1.Pod {
	p := corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, UID: types.UID(name + "-uid")}}
	p.CreationTimestamp = Ago(age)
	p.Status.Phase = corev1.PodPending
	p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionTrue,
		LastTransitionTime: Ago(age)}}
	p.Spec.Containers = []corev1.Container{{Name: "c", Image: name + ".example:5000/app:1"}}
	if reason != "" {
		p.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "c",
			State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: reason, Message: says}}}}
	}
	return p
}

// PlacedOn returns the snapshot of a node with these pods, and one event per pod.
func PlacedOn(reason, text string, pods ...corev1.Pod) *cluster.Snapshot {
	s := Snapshot(Node("node-a", "10.0.0.1", "10.0.0.1/24"))
	s.Placed.Pods.Value = pods
	for i := range pods {
		if w, ok := cluster.Waits(&pods[i]); ok {
			if reason != "" {
				w.Last = &corev1.Event{Reason: reason, Message: strings.ReplaceAll(text, "ID64", fmt.Sprintf("%064x", i+1))}
			}
			s.Placed.Waiting.Value = append(s.Placed.Waiting.Value, w)
		}
	}
	return s
}

// OfCalicoNode returns the snapshot of a node with unknown readiness, where calico-node v3.32.1 runs with its account.
func OfCalicoNode() *cluster.Snapshot {
	s := Snapshot(Node("a", "10.0.0.1", "10.0.0.1/24"))
	s.Calico.Value = Calico(3)
	s.Calico.Value.Namespace, s.Calico.Value.Spec.ServiceAccountName = "kube-system", "calico-node"
	s.Calico.Value.Spec.InitContainers = []corev1.Container{{Name: "install-cni"}}
	s.Calico.Value.Spec.Containers[0].Image = "quay.io/calico/node:v3.32.1"
	s.Calico.Value.Status.Conditions = nil
	return s
}

// StartWaits returns a calico-node pod that was created for a node but is not bound to it.
func StartWaits(says, cpu string) *corev1.Pod {
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: "calico-node-x",
		CreationTimestamp: Ago(time.Minute),
		OwnerReferences:   []metav1.OwnerReference{{Kind: "DaemonSet", Name: "calico-node", Controller: new(true)}}}}
	if says != "" {
		p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionFalse,
			Reason: "Unschedulable", Message: says}}
	}
	p.Spec.Containers = []corev1.Container{{Resources: corev1.ResourceRequirements{
		Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(cpu)}}}}
	return p
}
