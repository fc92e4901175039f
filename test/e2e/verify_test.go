//go:build e2e

package e2e

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	apiwatch "k8s.io/apimachinery/pkg/watch"

	"github.com/calico-probe/calico-probe/probe"
)

// poses is the label that any user can set on a pod.
var poses = map[string]string{"k8s-app": "calico-node"}

// tenantNamespace creates a namespace that is deleted with the test. The result lists every object created in it,
// except pods with this name prefix.
func tenantNamespace(t *testing.T, name, own string) (others func() []string) {
	t.Helper()
	k := kube(t)
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}
	if _, err := k.CoreV1().Namespaces().Create(t.Context(), namespace, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := k.CoreV1().Namespaces().Delete(context.Background(), name, metav1.DeleteOptions{}); err != nil {
			t.Error(err)
		}
		eventually(t, time.Minute, func() string {
			_, err := k.CoreV1().Namespaces().Get(context.Background(), name, metav1.GetOptions{})
			if !apierrors.IsNotFound(err) {
				return "namespace " + name + " is still there"
			}
			return ""
		})
	})
	pods, err := k.CoreV1().Pods(name).Watch(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	jobs, err := k.BatchV1().Jobs(name).Watch(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	var mu sync.Mutex
	var seen []string
	for _, w := range []apiwatch.Interface{pods, jobs} {
		go func() {
			for ev := range w.ResultChan() {
				object, ok := ev.Object.(metav1.Object)
				if ev.Type == apiwatch.Added && ok && !strings.HasPrefix(object.GetName(), own) {
					mu.Lock()
					seen = append(seen, object.GetName())
					mu.Unlock()
				}
			}
		}()
	}
	return func() []string {
		mu.Lock()
		defer mu.Unlock()
		return slices.Clone(seen)
	}
}

// posing makes a pod of a tenant on node-b that poses as calico-node, and waits until it does so in the
// state that is asked for.
func posing(t *testing.T, name string, spec corev1.PodSpec, until func(corev1.PodStatus) bool) {
	t.Helper()
	pods := kube(t).CoreV1().Pods("tenant")
	spec.NodeName = "node-b"
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: poses}, Spec: spec}
	if _, err := pods.Create(t.Context(), pod, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := pods.Delete(context.Background(), name, *metav1.NewDeleteOptions(0)); err != nil {
			t.Error(err)
		}
	})
	eventually(t, time.Minute, func() string {
		got, err := pods.Get(t.Context(), name, metav1.GetOptions{})
		switch {
		case err != nil:
			return err.Error()
		case !until(got.Status):
			return fmt.Sprintf("tenant/%s is %s", name, got.Status.Phase)
		}
		return ""
	})
}

func isReady(s corev1.PodStatus) bool {
	return len(s.ContainerStatuses) > 0 && s.ContainerStatuses[0].Ready
}

func hasRestarted(s corev1.PodStatus) bool {
	return len(s.ContainerStatuses) > 0 && s.ContainerStatuses[0].RestartCount > 0
}

// posingSet makes a DaemonSet whose pod on node-b poses as calico-node.
func posingSet(t *testing.T, namespace, name string) {
	t.Helper()
	k := kube(t)
	spec := withShell("calico-node")
	spec.NodeSelector = map[string]string{corev1.LabelHostname: "node-b"}
	set := &appsv1.DaemonSet{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: appsv1.DaemonSetSpec{
		Selector: &metav1.LabelSelector{MatchLabels: poses},
		Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: poses}, Spec: spec},
	}}
	if _, err := k.AppsV1().DaemonSets(namespace).Create(t.Context(), set, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	eventually(t, time.Minute, func() string {
		pods, err := k.CoreV1().Pods(namespace).List(t.Context(), metav1.ListOptions{})
		if err != nil || len(pods.Items) != 1 || !isReady(pods.Items[0].Status) {
			return fmt.Sprintf("the pod of DaemonSet %s/%s is not ready (%v)", namespace, name, err)
		}
		return ""
	})
}

// onlyTold requires that a report mentions a namespace only for its ignored pods.
func onlyTold(t *testing.T, d document, a answer, namespace string) {
	t.Helper()
	d.want(t, "calico-pod", probe.Info, namespace+"/", ": ignored")
	for _, r := range d.Results {
		about := strings.Contains(r.Target+" "+r.Saw+" "+fmt.Sprint(r.Facts), namespace+"/")
		if about && (r.Check != "calico-pod" || r.Status != probe.Info) {
			t.Errorf("%v is about %s", r, namespace)
		}
	}
	if strings.Contains(fmt.Sprint(d.Causes), namespace) {
		t.Errorf("the causes are about %s: %v", namespace, d.Causes)
	}
	if strings.Contains(a.stdout, "10.88.0.250:23799") {
		t.Error("the decoy's environment says where etcd is")
	}
}

// TestDecoyCalicoNode has a tenant pose as calico-node in every way. The report and the probe must not use the tenant's
// data.
func TestDecoyCalicoNode(t *testing.T) {
	calicoReady(t, "node-b")
	created := tenantNamespace(t, "tenant", "decoy")
	t.Run("it crashes, the real one is well", func(t *testing.T) {
		spec := withShell("calico-node")
		spec.Containers[0].Command = []string{"sh", "-c", "exit 1"}
		spec.Containers[0].Env = []corev1.EnvVar{
			{Name: "ETCD_ENDPOINTS", Value: "https://10.88.0.250:23799"}, {Name: "DATASTORE_TYPE", Value: "etcdv3"},
		}
		posing(t, "decoy", spec, hasRestarted)
		d, a := report(t, "run", "--node", "node-b", "--skip", "node-load")
		if a.exit != 0 {
			t.Errorf("exit %d, causes %v\n%s", a.exit, d.Causes, a.stderr)
		}
		d.want(t, "calico-pod", probe.OK, "kube-system/calico-node-")
		d.want(t, "probe-placed", probe.OK, "pod kube-system/calico-probe-node-b-")
		onlyTold(t, d, a, "tenant")
		a = call(t, "preflight", "--node", "node-b", "--via", "api", "-o", "wide")
		if a.exit != 0 || !strings.Contains(a.folded(), "tenant/decoy calls itself calico-node") {
			t.Errorf("preflight: exit %d: %s%s", a.exit, a.stdout, a.stderr)
		}
	})
	t.Run("it is well, the real one does not start", func(t *testing.T) {
		t.Cleanup(func() { calicoReady(t, "node-b") }) // once it is healed
		broken(t, "calico-image-missing")
		posing(t, "decoy", withShell("calico-node"), isReady)
		d, a := report(t, "run", "--node", "node-b", "--via", "api")
		if a.exit != 3 || len(d.Causes) == 0 || d.Causes[0].ID != "calico-image" {
			t.Errorf("exit %d, causes %v\n%s", a.exit, d.Causes, a.stderr)
		}
		d.want(t, "calico-pod", probe.Fail, "kube-system/calico-node-")
		onlyTold(t, d, a, "tenant")
	})
	t.Run("it has a shell", func(t *testing.T) {
		posing(t, "decoy", withShell("calico-node"), isReady)
		posing(t, "decoy-proxy", withShell("kube-proxy"), isReady)
		d, a := report(t, "run", "--node", "node-b", "--via", "exec")
		if a.exit != 5 || strings.Contains(fmt.Sprint(d.of("probe-placed")), "tenant/") {
			t.Errorf("exit %d, %v\n%s", a.exit, d.of("probe-placed"), a.stderr)
		}
		d.want(t, "probe-placed", probe.Unknown, "kube-system/calico-node-", "/calico-node (no shell)")
		onlyTold(t, d, a, "tenant")
	})
	t.Run("it could be joined", func(t *testing.T) {
		posing(t, "decoy", withShell("calico-node"), isReady)
		d, a := report(t, "run", "--node", "node-b", "--via", "ephemeral", "--skip", "node-load")
		d.want(t, "probe-placed", probe.OK, "in pod kube-system/calico-node-")
		onlyTold(t, d, a, "tenant")
		pods := kube(t).CoreV1().Pods("tenant")
		got, err := pods.Get(t.Context(), "decoy", metav1.GetOptions{})
		if err != nil || len(got.Spec.EphemeralContainers) > 0 {
			t.Fatalf("%v: %v", err, got.Spec.EphemeralContainers)
		}
		// What looks as if a probe were in it is the tenant's own.
		got.Spec.EphemeralContainers = []corev1.EphemeralContainer{{EphemeralContainerCommon: corev1.EphemeralContainerCommon{
			Name: "calico-probe-00000000", Image: "sandbox.local/workload:1", ImagePullPolicy: corev1.PullIfNotPresent,
			TerminationMessagePolicy: corev1.TerminationMessageReadFile,
		}}}
		if _, err := pods.UpdateEphemeralContainers(t.Context(), "decoy", got, metav1.UpdateOptions{}); err != nil {
			t.Fatal(err)
		}
		if a := call(t, "clean"); a.exit != 0 || strings.Contains(a.stdout, "tenant") {
			t.Errorf("clean: exit %d: %s%s", a.exit, a.stdout, a.stderr)
		}
	})
	t.Run("it is of a DaemonSet", func(t *testing.T) {
		posingSet(t, "tenant", "decoy")
		d, a := report(t, "run", "--node", "node-b", "--skip", "node-load")
		if a.exit != 0 {
			t.Errorf("exit %d, causes %v\n%s", a.exit, d.Causes, a.stderr)
		}
		onlyTold(t, d, a, "tenant")
		// A user who names a namespace declares that Calico is in it.
		d, a = report(t, "run", "--node", "node-b", "--via", "api", "--calico-namespace", "tenant")
		d.want(t, "calico-pod", probe.OK, "tenant/decoy-", "calico-node is running and ready")
		d.want(t, "calico-pod", probe.Info, "kube-system/calico-node-", "ignored")
		d, a = report(t, "run", "--node", "node-b", "--via", "api", "--calico-namespace", "elsewhere")
		d.want(t, "calico-pod", probe.Unknown, "no calico-node pod in namespace elsewhere",
			"DaemonSet kube-system/calico-node has one here", "set --calico-namespace kube-system")
		if a.exit != 5 {
			t.Errorf("exit %d, want no verdict\n%s", a.exit, a.stdout)
		}
	})
	if got := created(); len(got) > 0 {
		t.Errorf("created in the tenant's namespace: %v", got)
	}
	nothingLeft(t)
}

// TestTwoDaemonSets requires that no calico-node is trusted if two may be Calico's, and that the flag decides.
func TestTwoDaemonSets(t *testing.T) {
	slow(t)
	calicoReady(t, "node-b")
	created := tenantNamespace(t, "calico-system", "calico-node-")
	posingSet(t, "calico-system", "calico-node")
	const two = "2 DaemonSets claim to be calico-node on this node (calico-system/calico-node, kube-system/calico-node): " +
		"name the namespace of the right one with --calico-namespace"
	d, a := report(t, "run", "--node", "node-b", "--skip", "node-load")
	if a.exit != 5 {
		t.Errorf("exit %d, want no verdict: %v\n%s", a.exit, d.Causes, a.stderr)
	}
	d.want(t, "calico-pod", probe.Unknown, two)
	d.want(t, "probe-placed", probe.OK, "pod kube-system/calico-probe-node-b-")
	d, a = report(t, "run", "--node", "node-b", "--via", "ephemeral")
	d.want(t, "probe-placed", probe.Unknown, "ephemeral: "+two)
	if a.exit != 5 {
		t.Errorf("by ephemeral: exit %d\n%s", a.exit, a.stderr)
	}
	d, a = report(t, "run", "--node", "node-b", "--skip", "node-load", "--calico-namespace", "kube-system")
	if a.exit != 0 {
		t.Errorf("with the flag: exit %d, causes %v\n%s", a.exit, d.Causes, a.stderr)
	}
	onlyTold(t, d, a, "calico-system")
	if a := call(t, "preflight", "--via", "api"); a.exit != 0 || !strings.HasPrefix(a.stdout, "ready on node-a: ") {
		t.Errorf("the first node that is well, for preflight: exit %d: %s%s", a.exit, a.stdout, a.stderr)
	}
	a = call(t, "preflight", "--node", "node-b", "--via", "ephemeral")
	if a.exit == 0 || !strings.Contains(a.folded(), "2 DaemonSets claim") {
		t.Errorf("preflight: exit %d: %s%s", a.exit, a.stdout, a.stderr)
	}
	if got := created(); len(got) > 0 {
		t.Errorf("created in calico-system: %v", got)
	}
	nothingLeft(t)
}
