//go:build e2e

package e2e

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/calico-probe/calico-probe/probe"
)

// customer runs a customer's pod on a node, with those requests, to the end of the test.
func customer(t testing.TB, name, node string, requests corev1.ResourceList) {
	t.Helper()
	pods := kube(t).CoreV1().Pods("default")
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: corev1.PodSpec{
		NodeName: node, TerminationGracePeriodSeconds: new(int64(0)),
		Containers: []corev1.Container{{
			Name: "work", Image: "sandbox.local/workload:1", ImagePullPolicy: corev1.PullIfNotPresent,
			Resources: corev1.ResourceRequirements{Requests: requests},
		}},
	}}
	if _, err := pods.Create(t.Context(), pod, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		now := metav1.DeleteOptions{GracePeriodSeconds: new(int64(0))}
		if err := pods.Delete(context.Background(), name, now); err != nil {
			t.Error(err)
		}
	})
	eventually(t, time.Minute, func() string {
		got, err := pods.Get(t.Context(), name, metav1.GetOptions{})
		switch {
		case err != nil:
			return err.Error()
		case got.Status.Phase != corev1.PodRunning:
			return fmt.Sprintf("%s is %s: %s %s", name, got.Status.Phase, got.Status.Reason, got.Status.Message)
		}
		return ""
	})
}

// podsOn are the pods that count on a node.
func podsOn(t testing.TB, node string) []corev1.Pod {
	t.Helper()
	pods, err := kube(t).CoreV1().Pods("").List(context.Background(), metav1.ListOptions{
		FieldSelector: "spec.nodeName=" + node + ",status.phase!=Succeeded,status.phase!=Failed",
	})
	if err != nil {
		t.Fatal(err)
	}
	return pods.Items
}

// fill has a customer's pod request all CPU and memory that is left on a node.
func fill(t testing.TB, node string) {
	t.Helper()
	nodeReady(t, node)
	n, err := kube(t).CoreV1().Nodes().Get(t.Context(), node, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	rest := corev1.ResourceList{}
	for _, name := range []corev1.ResourceName{corev1.ResourceCPU, corev1.ResourceMemory} {
		free := n.Status.Allocatable[name]
		for _, p := range podsOn(t, node) {
			for _, c := range slices.Concat(p.Spec.Containers, p.Spec.InitContainers) {
				free.Sub(c.Resources.Requests[name])
			}
		}
		rest[name] = free
	}
	customer(t, "e2e-customer", node, rest)
}

// TestFullNode requests all CPU and memory of a node for a customer's pod. A probe and a root shell must still answer,
// and no pod may be evicted.
func TestFullNode(t *testing.T) {
	const node = "node-b"
	fill(t, node)
	unchanged(t)
	d, a := report(t, "run", "--node", node, "--via", "pod", "--skip", "node-load")
	if a.exit != 0 {
		t.Errorf("exit %d: %v\n%s", a.exit, d.Results, a.stderr)
	}
	d.want(t, "probe-placed", probe.OK, "pod: ")
	if a := shellFed(t, "sh -c 'echo is here'\n", "--node", node, "--via", "pod"); !strings.Contains(a.stdout, "is here") {
		t.Errorf("exit %d: %s%s", a.exit, a.stdout, a.stderr)
	}
	nothingLeft(t)
}

// kubeletWith has a node's kubelet run with more settings until the test ends, and waits until
// the Node tells of them.
func kubeletWith(t testing.TB, node, settings string, told func(*corev1.Node) bool) {
	t.Helper()
	const config = "/var/lib/kubelet/config.yaml"
	again := func(script string, done func(*corev1.Node) bool) {
		shell(t, node, script)
		signalAll(t, node, "kubelet", "KILL") // it is started again
		nodeReady(t, node)
		eventually(t, time.Minute, func() string {
			n, err := kube(t).CoreV1().Nodes().Get(context.Background(), node, metav1.GetOptions{})
			switch {
			case err != nil:
				return err.Error()
			case !done(n):
				return fmt.Sprintf("the kubelet does not tell yet: %v %v", n.Status.Allocatable, n.Status.Conditions)
			}
			return ""
		})
	}
	t.Cleanup(func() {
		again("cp "+config+".e2e "+config, func(n *corev1.Node) bool { return !told(n) && len(n.Spec.Taints) == 0 })
	})
	again("cp "+config+" "+config+".e2e; cat >>"+config+" <<'END'\n"+settings+"\nEND", told)
}

// TestPodLimit fills a node up to its pod limit. The probe must still run there.
func TestPodLimit(t *testing.T) {
	slow(t)
	const node = "node-b"
	nodeReady(t, node)
	n := len(podsOn(t, node))
	kubeletWith(t, node, fmt.Sprintf("maxPods: %d", n), func(got *corev1.Node) bool {
		return got.Status.Allocatable.Pods().Equal(*resource.NewQuantity(int64(n), resource.DecimalSI))
	})
	unchanged(t)
	d, a := report(t, "run", "--node", node, "--via", "pod")
	if a.exit != 5 {
		t.Errorf("by pod: exit %d\n%s", a.exit, a.stderr)
	}
	d.want(t, "probe-placed", probe.Unknown, "pod: the kubelet rejected the pod: OutOfpods: ")
	if len(d.Causes) == 0 || d.Causes[0].ID != "probe-rejected" {
		t.Errorf("causes: %v", d.Causes)
	}
	d, a = report(t, "run", "--node", node, "--skip", "node-load")
	if a.exit != 0 {
		t.Errorf("by auto: exit %d: %v\n%s", a.exit, d.Results, a.stderr)
	}
	d.want(t, "probe-placed", probe.Info, "pod: the kubelet rejected the pod: OutOfpods: ")
	d.want(t, "probe-placed", probe.OK, "ephemeral: ")
	nothingLeft(t)
}

// TestPressure has the kubelet report pressure. Its thresholds are soft, or it would evict pods.
func TestPressure(t *testing.T) {
	const node = "node-b"
	for _, c := range []struct {
		signal, most string
		condition    corev1.NodeConditionType
		taken        bool // the kubelet takes the pod nevertheless
	}{
		{"nodefs.available", "1000Ti", corev1.NodeDiskPressure, false},
		{"pid.available", "1000000000", corev1.NodePIDPressure, false},
		{"memory.available", "1000Ti", corev1.NodeMemoryPressure, true},
	} {
		t.Run(string(c.condition), func(t *testing.T) {
			nodeReady(t, node)
			settings := fmt.Sprintf("evictionSoft: {%s: %q}\nevictionSoftGracePeriod: {%s: 30m}", c.signal, c.most, c.signal)
			kubeletWith(t, node, settings, func(got *corev1.Node) bool {
				short := slices.ContainsFunc(got.Status.Conditions, func(x corev1.NodeCondition) bool {
					return x.Type == c.condition && x.Status == corev1.ConditionTrue
				})
				return short && len(got.Spec.Taints) > 0
			})
			d, a := report(t, "run", "--node", node, "--baselines", "0")
			if a.exit == 1 || a.exit == 2 || a.exit == 5 {
				t.Errorf("exit %d: %v\n%s", a.exit, d.Results, a.stderr)
			}
			if c.taken {
				d.want(t, "probe-placed", probe.OK, "pod: ")
			} else {
				d.want(t, "probe-placed", probe.Info, "pod: the kubelet rejected the pod: Evicted: ", string(c.condition))
				d.want(t, "probe-placed", probe.OK, "ephemeral: ")
			}
			nothingLeft(t)
		})
	}
}
