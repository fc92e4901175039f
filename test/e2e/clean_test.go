//go:build e2e

package e2e

import (
	"context"
	"encoding/json"
	"io"
	"maps"
	"net/http"
	"net/http/httputil"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// ours lists the probe pods and clean-up jobs there are, by their UIDs with their runs.
func ours(t testing.TB) map[types.UID]string {
	t.Helper()
	all := map[types.UID]string{}
	labelled := metav1.ListOptions{LabelSelector: "app.kubernetes.io/managed-by=calico-probe,calico-probe.io/run"}
	pods, err := kube(t).CoreV1().Pods("").List(t.Context(), labelled)
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range pods.Items {
		all[p.UID] = p.Labels["calico-probe.io/run"]
	}
	jobs, err := kube(t).BatchV1().Jobs("").List(t.Context(), labelled)
	if err != nil {
		t.Fatal(err)
	}
	for _, j := range jobs.Items {
		all[j.UID] = j.Labels["calico-probe.io/run"]
	}
	return all
}

// without are those of other runs.
func without(all map[types.UID]string, run string) map[types.UID]string {
	rest := maps.Clone(all)
	maps.DeleteFunc(rest, func(_ types.UID, r string) bool { return r == run })
	return rest
}

// asOlder changes a run's objects to those of an older client whose clock is ten minutes slow: they contain an expiry
// by that clock.
func asOlder(t testing.TB, run string) {
	t.Helper()
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"annotations": map[string]any{
		"calico-probe.io/lifetime": nil, "calico-probe.io/expires": time.Now().Add(-8 * time.Minute).UTC().
						Format(time.RFC3339),
	}}})
	if err != nil {
		t.Fatal(err)
	}
	labelled := metav1.ListOptions{LabelSelector: "calico-probe.io/run=" + run}
	pods, err := kube(t).CoreV1().Pods("").List(t.Context(), labelled)
	if err != nil || len(pods.Items) != 1 {
		t.Fatal(err, len(pods.Items))
	}
	jobs, err := kube(t).BatchV1().Jobs("").List(t.Context(), labelled)
	if err != nil || len(jobs.Items) != 1 {
		t.Fatal(err, len(jobs.Items))
	}
	p, j := pods.Items[0], jobs.Items[0]
	if _, err := kube(t).CoreV1().Pods(p.Namespace).
		Patch(t.Context(), p.Name, types.MergePatchType, patch, metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	if _, err := kube(t).BatchV1().Jobs(j.Namespace).
		Patch(t.Context(), j.Name, types.MergePatchType, patch, metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
}

// stranger makes a pod that is none of ours, though it has our name or our labels.
func stranger(t testing.TB, name string, labels map[string]string) *corev1.Pod {
	t.Helper()
	pods := kube(t).CoreV1().Pods("default")
	pod, err := pods.Create(t.Context(), &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: labels}, Spec: neverRuns(),
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		err := pods.Delete(context.Background(), name, metav1.DeleteOptions{GracePeriodSeconds: new(int64(0))})
		if err != nil && !apierrors.IsNotFound(err) {
			t.Error(err)
		}
	})
	return pod
}

// leftover makes a pod as a client that was killed leaves it, by name and labels, with the
// annotations given. No node takes it.
func leftover(t testing.TB, namespace, run string, annotations map[string]string) *corev1.Pod {
	t.Helper()
	pods := kube(t).CoreV1().Pods(namespace)
	pod, err := pods.Create(t.Context(), &corev1.Pod{Spec: neverRuns(), ObjectMeta: metav1.ObjectMeta{
		Name: "calico-probe-left-" + run, Annotations: annotations,
		Labels: map[string]string{
			"app.kubernetes.io/managed-by": "calico-probe", "app.kubernetes.io/name": "calico-probe", "calico-probe.io/run": run,
		},
	}}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		err := pods.Delete(context.Background(), pod.Name, metav1.DeleteOptions{GracePeriodSeconds: new(int64(0))})
		if err != nil && !apierrors.IsNotFound(err) { // clean may have removed it
			t.Error(err)
		}
	})
	return pod
}

// neverRuns is a pod that no node takes.
func neverRuns() corev1.PodSpec {
	return corev1.PodSpec{
		NodeSelector: map[string]string{"e2e": "nowhere"},
		Containers:   []corev1.Container{{Name: "never", Image: "sandbox.local/workload:1"}},
	}
}

func there(t testing.TB, pod *corev1.Pod) bool {
	t.Helper()
	got, err := kube(t).CoreV1().Pods(pod.Namespace).Get(t.Context(), pod.Name, metav1.GetOptions{})
	if err != nil && !apierrors.IsNotFound(err) {
		t.Fatal(err)
	}
	return err == nil && got.UID == pod.UID && got.DeletionTimestamp == nil
}

// TestClean removes a killed client's leftovers, by run ID and all of them after a question. It must not touch foreign
// objects, or the run of another user whose clock is ten minutes off.
func TestClean(t *testing.T) {
	mustSandbox(t, "felix", "node-b", "hang") // so that the run is still going on
	t.Cleanup(func() { mustSandbox(t, "felix", "node-b", "ok"); calicoReady(t, "node-b") })
	theirs, out := started(t, nil, "run", "--node", "node-b", "--via", "pod", "-o", "ndjson", "--check-timeout", "55s",
		"--baselines", "0", "--reason", "theirs")
	waitFor(t, out, `"check":"node-swap"`)
	live := ours(t)
	run := ""
	for _, r := range live {
		run = r
	}
	if len(live) != 2 || len(without(live, run)) != 0 {
		t.Fatalf("a run is to have a pod and a job: %v", live)
	}
	go func() { _, _ = io.Copy(io.Discard, out) }() // ends with the run
	asOlder(t, run)
	labelled := stranger(t, "labelled", map[string]string{
		"app.kubernetes.io/managed-by": "calico-probe", "app.kubernetes.io/name": "calico-probe", "calico-probe.io/run": run,
	})
	named := stranger(t, "calico-probe-node-b-"+run, nil)
	untouched := func(when string) {
		t.Helper()
		now := ours(t)
		delete(now, labelled.UID)
		if !maps.Equal(now, live) || !there(t, labelled) || !there(t, named) {
			t.Fatalf("%s: %v is left of %v, and of strangers %v %v", when, now, live, there(t, labelled), there(t, named))
		}
	}

	a := call(t, "clean")
	if a.exit != 0 || strings.Contains(a.stdout, "removed") || !strings.Contains(a.stdout, "in use, kept ('calico-probe clean --run "+run+"' removes it): pod kube-system/calico-probe-node-b-"+run) {
		t.Errorf("exit %d\n%s%s", a.exit, a.stdout, a.stderr)
	}
	untouched("after clean")

	mine, out := started(t, nil, "run", "--node", "node-a", "--via", "pod", "--baselines", "0", "-o", "ndjson")
	waitFor(t, out, `"way":"pod"`)
	if err := mine.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = mine.Wait()
	killed := ""
	for uid, r := range ours(t) {
		if live[uid] == "" && uid != labelled.UID {
			killed = r
		}
	}
	a = call(t, "clean", "--run", killed)
	if a.exit != 0 || strings.Count(a.stdout, "removed ") != 2 || !strings.Contains(a.stdout, "removed pod kube-system/calico-probe-node-a-"+killed+" on node node-a") || strings.Contains(a.stdout, run) {
		t.Errorf("exit %d\n%s%s", a.exit, a.stdout, a.stderr)
	}
	untouched("after clean --run of another")
	a = call(t, "clean", "--run", killed)
	if a.exit != 0 || a.stdout != "nothing to remove for run "+killed+"\n" {
		t.Errorf("with nothing to do: exit %d\n%s%s", a.exit, a.stdout, a.stderr)
	}

	a = call(t, "clean", "--all")
	if a.exit != 2 || a.stdout != "" || strings.Count(a.stderr, "\n") != 1 || !strings.Contains(a.stderr, "--yes") {
		t.Errorf("nobody to ask: exit %d\n%s%s", a.exit, a.stdout, a.stderr)
	}
	untouched("after clean --all without a terminal")
	s := newScreen(t)
	s.client("clean --all")
	s.wants("IN USE: pod kube-system/calico-probe-node-b-" + run)
	s.wants("reason: theirs")
	s.wantsLast("remove these 2 objects, of which 2 may be in use? Type yes:")
	s.enter("y")
	s.left(1)
	s.wants("nothing was removed")
	untouched("after a question that was not answered with yes")

	a = call(t, "clean", "--all", "--yes")
	if a.exit != 0 || strings.Count(a.stdout, "removed ") != 2 {
		t.Errorf("exit %d\n%s%s", a.exit, a.stdout, a.stderr)
	}
	eventually(t, time.Minute, func() string {
		now := ours(t)
		delete(now, labelled.UID)
		for _, r := range now {
			return "left of run " + r
		}
		return ""
	})
	if !there(t, labelled) || !there(t, named) {
		t.Errorf("a stranger was removed: %v %v", there(t, labelled), there(t, named))
	}
	mustSandbox(t, "felix", "node-b", "ok")
	_ = theirs.Wait()
	if got := theirs.ProcessState.ExitCode(); got != 3 && got != 5 { // its pod was taken away
		t.Errorf("exit %d", got)
	}
}

// dated is a kubeconfig of a server in front of the API server, of whose answers it moves
// the Date, and only that.
func dated(t testing.TB, by time.Duration) string {
	t.Helper()
	return inFront(t, func(proxy *httputil.ReverseProxy, w http.ResponseWriter, r *http.Request) {
		moved := *proxy
		moved.ModifyResponse = func(r *http.Response) error {
			now, err := http.ParseTime(r.Header.Get("Date"))
			if err == nil {
				r.Header.Set("Date", now.Add(by).Format(http.TimeFormat))
			}
			return err
		}
		moved.ServeHTTP(w, r)
	})
}

// TestCleanByServerClock requires that the API server's clock, ten minutes ahead or behind, decides what has expired.
func TestCleanByServerClock(t *testing.T) {
	left := func(run, life string) *corev1.Pod {
		return leftover(t, "default", run, map[string]string{
			"calico-probe.io/node": "node-a", "calico-probe.io/lifetime": life,
		})
	}
	long, short := left("00000001", "2m10s"), left("00000002", "1s")
	time.Sleep(time.Until(short.CreationTimestamp.Add(3 * time.Second)))

	a := call(t, "clean", "--kubeconfig", dated(t, -10*time.Minute))
	if a.exit != 0 || strings.Contains(a.stdout, "removed") || strings.Count(a.stdout, "in use, kept") != 2 {
		t.Errorf("a server whose clock is behind: exit %d\n%s%s", a.exit, a.stdout, a.stderr)
	}
	a = call(t, "clean")
	if a.exit != 0 || !there(t, long) || there(t, short) {
		t.Errorf("exit %d, %v %v\n%s%s", a.exit, there(t, long), there(t, short), a.stdout, a.stderr)
	}
	a = call(t, "clean", "--kubeconfig", dated(t, 10*time.Minute))
	if a.exit != 0 || there(t, long) || !strings.Contains(a.stdout, "removed pod default/calico-probe-left-00000001") {
		t.Errorf("a server whose clock is ahead: exit %d\n%s%s", a.exit, a.stdout, a.stderr)
	}
}
