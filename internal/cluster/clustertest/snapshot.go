package clustertest

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/calico-probe/calico-probe/internal/cluster"
)

// Now is the time in all Snapshots. Ages in tests therefore do not depend on the clock.
var Now = time.Date(2026, 11, 21, 3, 50, 0, 0, time.UTC)

// Ago returns a time before Now.
func Ago(d time.Duration) metav1.Time { return metav1.NewTime(Now.Add(-d)) }

// Node returns a node with an InternalIP and, unless empty, an address registered by Calico.
func Node(name, internal, registered string) corev1.Node {
	n := corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Annotations: map[string]string{}}}
	if registered != "" {
		n.Annotations[cluster.AnnotationIPv4] = registered
	}
	n.Status.Addresses = []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: internal}}
	n.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue,
		LastTransitionTime: Ago(time.Hour)}}
	return n
}

// Snapshot returns a snapshot of the first node, without other data.
func Snapshot(nodes ...corev1.Node) *cluster.Snapshot {
	return &cluster.Snapshot{Now: Now, Node: &nodes[0],
		Survey: cluster.Survey{Nodes: nodes, CalicoIn: cluster.Namespaces("")}}
}

// Calico returns a calico-node pod with three init containers, of which n are done. If all are done, its main container
// is ready.
func Calico(done int) *corev1.Pod {
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: "calico-node-x",
		CreationTimestamp: Ago(time.Hour)}}
	for i, name := range []string{"upgrade-ipam", "install-cni", "ebpf-bootstrap"} {
		p.Spec.InitContainers = append(p.Spec.InitContainers, corev1.Container{Name: name})
		st := corev1.ContainerStatus{Name: name,
			State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "PodInitializing"}}}
		if i < done {
			st.State = corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{}}
		}
		p.Status.InitContainerStatuses = append(p.Status.InitContainerStatuses, st)
	}
	p.Spec.Containers = []corev1.Container{{Name: cluster.CalicoContainer, LivenessProbe: &corev1.Probe{
		InitialDelaySeconds: 10, PeriodSeconds: 10, FailureThreshold: 6, TimeoutSeconds: 10,
	}}}
	main := corev1.ContainerStatus{Name: cluster.CalicoContainer,
		State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "PodInitializing"}}}
	if done == 3 {
		main.Ready = true
		main.State = corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: Ago(time.Hour)}}
	}
	p.Status.ContainerStatuses = []corev1.ContainerStatus{main}
	return p
}
