//go:build e2e

package hollow

import (
	"context"
	"fmt"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// zones are how many there are; node i is in zone i modulo that.
const zones = 5

// nodeName is that of node i.
func nodeName(i int) string { return fmt.Sprintf("hollow-%04d", i) }

// Nodes makes nodes that are well by what the API has of them, each with its lease and its calico-node pod. port is
// that of the hollow kubelets.
func (c *Cluster) Nodes(t testing.TB, n, port int) {
	t.Helper()
	for _, name := range []string{"kube-system", corev1.NamespaceNodeLease} {
		ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}
		_, err := c.Kube.CoreV1().Namespaces().Create(t.Context(), ns, metav1.CreateOptions{})
		if err != nil && !apierrors.IsAlreadyExists(err) {
			t.Fatal(err)
		}
	}
	each(t.Context(), t, n, func(ctx context.Context, i int) error { return c.node(ctx, i, port) })
	c.Renew(t, n)
}

func (c *Cluster) node(ctx context.Context, i, port int) error {
	addr := fmt.Sprintf("10.%d.%d.%d", 16+i>>16, i>>8&255, i&255)
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: nodeName(i),
		Annotations: map[string]string{"projectcalico.org/IPv4Address": addr + "/12",
			"projectcalico.org/IPv4VXLANTunnelAddr": fmt.Sprintf("10.%d.%d.%d", 128+i>>16, i>>8&255, i&255),
			"projectcalico.org/VXLANTunnelMACAddr":  fmt.Sprintf("66:%02x:%02x:7f:%02x:1a", i&255, i>>8, i*7&255)},
		Labels: map[string]string{corev1.LabelOSStable: "linux", corev1.LabelHostname: nodeName(i),
			corev1.LabelTopologyZone: fmt.Sprintf("zone-%d", i%zones), "rack": fmt.Sprintf("r%d", i%23)}}}
	made, err := c.Kube.CoreV1().Nodes().Create(ctx, node, metav1.CreateOptions{})
	if err != nil {
		return err
	}
	made.Status.Addresses = []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: addr},
		{Type: corev1.NodeExternalIP, Address: "127.0.0.1"}} // where its hollow kubelet is
	made.Status.DaemonEndpoints.KubeletEndpoint.Port = int32(port)
	made.Status.NodeInfo = corev1.NodeSystemInfo{KernelVersion: fmt.Sprintf("6.1.%d", i%3), KubeletVersion: "v1.36.0",
		OSImage: "Debian 12", ContainerRuntimeVersion: "containerd://2.1.4", Architecture: "amd64", OperatingSystem: "linux",
		MachineID: fmt.Sprintf("%032x", i+1), SystemUUID: fmt.Sprintf("%032x", i+1)}
	for j := range 40 { // what makes nodes large
		made.Status.Images = append(made.Status.Images, corev1.ContainerImage{SizeBytes: 1 << 26,
			Names: []string{fmt.Sprintf("registry.example.org/team/service-%d@sha256:%064x", j, j),
				fmt.Sprintf("registry.example.org/team/service-%d:v%d", j, j)}})
	}
	long := metav1.NewTime(time.Now().Add(-time.Hour))
	made.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue,
		Reason: "KubeletReady", LastTransitionTime: long, LastHeartbeatTime: long}}
	if _, err := c.Kube.CoreV1().Nodes().UpdateStatus(ctx, made, metav1.UpdateOptions{}); err != nil {
		return err
	}
	return c.calico(ctx, i, long)
}

// calico makes the calico-node pod of a node.
func (c *Cluster) calico(ctx context.Context, i int, since metav1.Time) error {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: "calico-node-" + nodeName(i),
		Labels: map[string]string{"k8s-app": "calico-node"},
		OwnerReferences: []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "DaemonSet", Name: "calico-node",
			UID: "hollow", Controller: new(true)}}}}
	pod.Spec = corev1.PodSpec{NodeName: nodeName(i), HostNetwork: true, TerminationGracePeriodSeconds: new(int64(0)),
		Containers: []corev1.Container{{Name: "calico-node", Image: "quay.io/calico/node:v3.32.1",
			Env: []corev1.EnvVar{{Name: "CALICO_NETWORKING_BACKEND", Value: "vxlan"}, {Name: "KUBECONFIG", Value: "/x"}}}}}
	made, err := c.Kube.CoreV1().Pods(pod.Namespace).Create(ctx, pod, metav1.CreateOptions{})
	if err != nil {
		return err
	}
	made.Status.Phase = corev1.PodRunning
	made.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "calico-node", Ready: true, Started: new(true),
		State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: since}}}}
	_, err = c.Kube.CoreV1().Pods(pod.Namespace).UpdateStatus(ctx, made, metav1.UpdateOptions{})
	return err
}

// Renew renews the leases of all nodes except silent ones for the duration of a test, in place of kubelets.
func (c *Cluster) Renew(t testing.TB, n int, silent ...int) {
	t.Helper()
	late := map[int]bool{}
	for _, i := range silent {
		late[i] = true
	}
	leases := c.Kube.CoordinationV1().Leases(corev1.NamespaceNodeLease)
	each(t.Context(), t, n, func(ctx context.Context, i int) error {
		at := time.Now().Add(time.Hour)
		if late[i] {
			at = time.Now().Add(-10 * time.Minute)
		}
		lease := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Name: nodeName(i)}}
		lease.Spec.RenewTime = &metav1.MicroTime{Time: at}
		_, err := leases.Create(ctx, lease, metav1.CreateOptions{})
		if !apierrors.IsAlreadyExists(err) {
			return err
		}
		had, err := leases.Get(ctx, lease.Name, metav1.GetOptions{})
		if err == nil {
			had.Spec.RenewTime = lease.Spec.RenewTime
			_, err = leases.Update(ctx, had, metav1.UpdateOptions{})
		}
		return err
	})
}
