//go:build e2e

package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httputil"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	reports "github.com/calico-probe/calico-probe/internal/report"
	"github.com/calico-probe/calico-probe/probe"
)

// refusing is a proxy before the real API server. While enabled, it answers requests with a status, like an overloaded
// server (429), or one that lost etcd (500) or its history (410). Open streams continue.
type refusing struct {
	kubeconfig string
	before     func(*http.Request) // where set, is shown every request first
	status     atomic.Int32        // 0 = it passes everything on
}

func newRefusing(t *testing.T) *refusing {
	t.Helper()
	f := &refusing{}
	f.kubeconfig = inFront(t, func(proxy *httputil.ReverseProxy, w http.ResponseWriter, r *http.Request) {
		if f.before != nil {
			f.before(r)
		}
		status := int(f.status.Load())
		if status == 0 {
			proxy.ServeHTTP(w, r)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		if status == http.StatusTooManyRequests {
			w.Header().Set("Retry-After", "1")
		}
		w.WriteHeader(status)
		_, _ = fmt.Fprintf(w, `{"kind":"Status","apiVersion":"v1","status":"Failure","message":"not now","code":%d}`, status)
	})
	return f
}

// refusals are what such a server answers with.
var refusals = []int{http.StatusTooManyRequests, http.StatusInternalServerError, http.StatusGone}

// TestAPIRefusesFromTheStart answers every request with 429, 500 or 410. The run must print one clear line in time, and
// its verdict must not sound healthy.
func TestAPIRefusesFromTheStart(t *testing.T) {
	for _, status := range refusals {
		t.Run(strconv.Itoa(status), func(t *testing.T) {
			api := newRefusing(t)
			api.status.Store(int32(status))
			a := call(t, "run", "--node", "node-a", "--timeout", "20s", "--kubeconfig", api.kubeconfig)
			if a.exit != 1 || strings.Contains(a.stdout, "healthy") {
				t.Errorf("exit %d, want 1\n%s%s", a.exit, a.stdout, a.stderr)
			}
			lines := strings.Split(strings.TrimSpace(a.stderr), "\n")
			if last := lines[len(lines)-1]; !strings.Contains(last, "calico-probe: ") || len(lines) > 2 {
				t.Errorf("said:\n%s", a.stderr)
			}
		})
	}
}

// TestAPIRefusesInMidRun answers every request with 429, 500 or 410 for a minute from the probe's first answer. Open
// connections continue, so the answer is complete. The client cannot clean up and reports that, and the cluster cleans
// up.
func TestAPIRefusesInMidRun(t *testing.T) {
	slow(t)
	unchanged(t)
	for _, status := range refusals {
		t.Run(strconv.Itoa(status), func(t *testing.T) {
			api := newRefusing(t)
			var errs bytes.Buffer
			cmd, out := started(t, &errs, "run", "--node", "node-a", "--via", "pod", "--skip", "node-load", "-o", "ndjson",
				"--timeout", "90s", "--kubeconfig", api.kubeconfig)
			waitFor(t, out, `"way":"pod"`)
			api.status.Store(int32(status))
			refused := time.AfterFunc(time.Minute, func() { api.status.Store(0) })
			defer refused.Stop()
			waitFor(t, out, `"type":"verdict"`)
			_ = cmd.Wait()
			if code := cmd.ProcessState.ExitCode(); code != 0 {
				t.Errorf("exit %d: the probe's answer was not disturbed\n%s", code, errs.String())
			}
			if !strings.Contains(errs.String(), "cleaning up") {
				t.Errorf("nothing is said of what could not be removed:\n%s", errs.String())
			}
			nothingLeft(t)
		})
	}
}

// TestAPIRecoversInMidRun refuses every request for eight seconds, from the request that creates the probe's pod. The
// run continues if it can, or reports the refusal.
func TestAPIRecoversInMidRun(t *testing.T) {
	unchanged(t)
	for _, status := range refusals {
		t.Run(strconv.Itoa(status), func(t *testing.T) {
			api := newRefusing(t)
			begun := make(chan struct{})
			begin := sync.OnceFunc(func() {
				api.status.Store(int32(status))
				time.AfterFunc(8*time.Second, func() { api.status.Store(0) })
				close(begun)
			})
			api.before = func(r *http.Request) {
				if r.Method == http.MethodPost && strings.HasSuffix(r.URL.Path, "/pods") {
					begin()
				}
			}
			a := call(t, "run", "--node", "node-a", "--via", "pod", "--skip", "node-load", "--baselines", "0",
				"--timeout", "90s",
				"--kubeconfig", api.kubeconfig)
			select {
			case <-begun:
			default:
				t.Fatalf("nothing was refused\n%s%s", a.stdout, a.stderr)
			}
			switch {
			case a.exit == 0: // it asked again
			case a.exit != 1 && a.exit != 5, strings.Contains(a.stdout, "healthy"):
				t.Errorf("exit %d\n%s%s", a.exit, a.stdout, a.stderr)
			case !strings.Contains(a.folded()+a.stderr, "not now"):
				t.Errorf("exit %d, and nothing says what refused it\n%s%s", a.exit, a.stdout, a.stderr)
			}
			if strings.Count(a.stderr, "\n") > 2 {
				t.Errorf("said:\n%s", a.stderr)
			}
			t.Logf("exit %d after %v\n%s", a.exit, a.took.Round(time.Second), a.stderr)
			nothingLeft(t)
		})
	}
}

// TestNodeDeletedInMidRun deletes the Node object while its probe answers. The run must end automatically, without
// "healthy", and leave nothing behind.
func TestNodeDeletedInMidRun(t *testing.T) {
	slow(t)
	nodes := kube(t).CoreV1().Nodes()
	node, err := nodes.Get(t.Context(), "node-b", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	fresh := &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: node.Name, Labels: node.Labels, Annotations: node.Annotations}, Spec: node.Spec,
	}
	fresh.Spec.Taints = nil
	t.Cleanup(func() { nothingLeft(t) })
	t.Cleanup(func() { nodeReady(t, "node-b") })
	t.Cleanup(func() { mustSandbox(t, "felix", "node-b", "ok") })
	mustSandbox(t, "felix", "node-b", "hang") // so that the run is still going on
	cmd, out := started(t, nil, "run", "--node", "node-b", "--via", "pod", "-o", "ndjson", "--timeout", "60s")
	waitFor(t, out, `"check":"node-swap"`)
	t.Cleanup(func() {
		if _, err := nodes.Create(context.Background(), fresh, metav1.CreateOptions{}); err != nil {
			t.Error(err)
		}
		signalAll(t, "node-b", "kubelet", "TERM") // it registers only when it starts
	})
	if err := nodes.Delete(t.Context(), "node-b", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	waitFor(t, out, `"type":"verdict"`)
	_ = cmd.Wait()
	if code := cmd.ProcessState.ExitCode(); code != 3 && code != 5 { // Felix hangs, which is a fault
		t.Errorf("exit %d", code)
	}
}

// TestKubeletRestartsInMidRun kills the kubelet during a run, which cuts the connection to the probe. The answer must
// be complete.
func TestKubeletRestartsInMidRun(t *testing.T) {
	unchanged(t)
	cmd, out := started(t, nil, "run", "--node", "node-a", "--via", "pod", "--skip", "node-load", "-o", "ndjson")
	said := waitFor(t, out, `"check":"node-swap"`)
	shell(t, "node-a", "kill -9 $(pgrep -x kubelet)")
	rest, err := io.ReadAll(out)
	if err != nil {
		t.Fatal(err)
	}
	said += string(rest)
	_ = cmd.Wait() // its exit code is looked at
	ended := false
	for line := range strings.Lines(said) {
		var ev probe.Event
		if err := json.Unmarshal([]byte(line), &ev); err != nil {
			t.Fatalf("%v: %q", err, line)
		}
		if ev.Node != "node-a" {
			continue
		}
		ended = ended || ev.Type == probe.EventEnd && ev.Method == "pod"
		// A kubelet that is seen down may call for more checks, which a one-shot probe cannot be asked any more.
		if ev.Result != nil && ev.Result.Check == probe.CheckAnswered &&
			!strings.HasPrefix(ev.Result.Saw, "the connection broke after the probe had answered its plan") {
			t.Errorf("the probe's answer is not whole: %s", line)
		}
	}
	// The checks may find the kubelet down. On a loaded machine some may also time out.
	if code := cmd.ProcessState.ExitCode(); code != 0 && code != reports.ExitFault && code != reports.ExitIncomplete {
		t.Errorf("exit %d\n%s", code, said)
	}
	if !ended {
		t.Errorf("the probe's answer has no end:\n%s", said)
	}
	nodeReady(t, "node-a")
	nothingLeft(t)
}

// TestControllersAwayAndClientKilled kills a client while the cluster's controllers are down. The probe exits
// automatically, and the controllers remove its objects when they return.
func TestControllersAwayAndClientKilled(t *testing.T) {
	slow(t)
	pids := controllers(t)
	stop := func(s syscall.Signal) {
		for _, pid := range pids {
			if err := syscall.Kill(pid, s); err != nil {
				t.Error(err)
			}
		}
	}
	cmd, out := started(t, nil, "run", "--node", "node-a", "--via", "pod", "-o", "ndjson", "--profile", "deep")
	waitFor(t, out, `"check":"node-swap"`)
	stop(syscall.SIGSTOP)
	resumed := false
	t.Cleanup(func() {
		if !resumed {
			stop(syscall.SIGCONT)
		}
	})
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait() // it was killed
	eventually(t, 60*time.Second, func() string {
		if strings.Contains(processes(t, "node-a"), "/probe session ") {
			return "the probe still runs, half a minute after its client"
		}
		return ""
	})
	if left(t) == "" {
		t.Error("nothing is left although nobody could remove it: the controllers were not away")
	}
	stop(syscall.SIGCONT)
	resumed = true
	nothingLeft(t)
}

// controllers are the processes of the cluster's controller manager.
func controllers(t *testing.T) (pids []int) {
	t.Helper()
	entries, err := os.ReadDir("/proc")
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		line, err := os.ReadFile(filepath.Join("/proc", e.Name(), "cmdline"))
		if err == nil && strings.Contains(string(line), "kube-controller-manager") &&
			strings.Contains(string(line), "/"+clusterName+"/pki/") {
			pids = append(pids, pid)
		}
	}
	if len(pids) == 0 {
		t.Fatal("no kube-controller-manager of this cluster is seen")
	}
	return pids
}

// TestClientsDiskFull gives the client a full disk for its report. It must print one clear line and the complete
// report, exit 1, and leave nothing on the cluster.
func TestClientsDiskFull(t *testing.T) {
	dir := t.TempDir()
	cmd := client(t)
	script := `mount -t tmpfs -o size=16k none "$1" && exec "$2" run --node node-a --via pod --skip node-load -o table -o ndjson="$1/night.ndjson"`
	cmd.Path, cmd.Args = "/usr/bin/unshare", []string{
		"unshare", "--mount", "--propagation", "private", "sh", "-c", script, "sh", dir, file("bin/calico-probe"),
	}
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	_ = cmd.Run() // with the exit code that is looked at
	if code := cmd.ProcessState.ExitCode(); code != 1 {
		t.Errorf("exit %d, want 1", code)
	}
	if !strings.Contains(out.String(), "healthy on node-a: ") { // the last line
		t.Errorf("the report on the screen is not whole:\n%s", out.String())
	}
	if strings.Count(errs.String(), "no space left on device") != 1 || strings.Count(errs.String(), "\n") != 1 {
		t.Errorf("said:\n%s", errs.String())
	}
	nothingLeft(t)
}

// TestMountsBelowTheRootAreReadOnly mounts a file system below a node's root, and tries to write to it with the volume
// mount of a real probe's pod.
func TestMountsBelowTheRootAreReadOnly(t *testing.T) {
	pods := kube(t).CoreV1().Pods("kube-system")
	cmd, out := started(t, nil, "run", "--node", "node-a", "--via", "pod", "-o", "ndjson", "--profile", "deep")
	waitFor(t, out, `"check":"node-swap"`)
	list, err := pods.List(t.Context(), metav1.ListOptions{LabelSelector: "app.kubernetes.io/managed-by=calico-probe", FieldSelector: "spec.nodeName=node-a"})
	if err != nil || len(list.Items) != 1 {
		t.Fatalf("%v, %v", list, err)
	}
	_ = cmd.Process.Kill()
	_ = cmd.Wait() // it was killed
	spec := list.Items[0].Spec
	shell(t, "node-a", "mkdir -p /run/e2e-below && mount -t tmpfs none /run/e2e-below")
	t.Cleanup(func() { shell(t, "node-a", "umount /run/e2e-below && rmdir /run/e2e-below") })
	host := spec.Containers[0].VolumeMounts[0]
	usr := corev1.VolumeMount{Name: "usr", MountPath: "/usr", ReadOnly: true}
	mounts := []corev1.VolumeMount{host, usr}
	for _, dir := range []string{"bin", "lib", "lib64"} {
		mounts = append(mounts, corev1.VolumeMount{Name: "usr", MountPath: "/" + dir, SubPath: dir, ReadOnly: true})
	}
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "e2e-writes"}, Spec: corev1.PodSpec{
		NodeName: "node-a", HostNetwork: true, RestartPolicy: corev1.RestartPolicyNever,
		TerminationGracePeriodSeconds: new(int64(0)),
		Containers: []corev1.Container{{
			Name: "writes", Image: "sandbox.local/workload:1", ImagePullPolicy: corev1.PullIfNotPresent, VolumeMounts: mounts,
			Command:         []string{"/bin/sh", "-c", "for d in / /run /run/e2e-below /var/lib; do touch /host$d/e2e-written && echo wrote $d; done 2>&1; echo done"},
			SecurityContext: &corev1.SecurityContext{Privileged: new(true), RunAsUser: new(int64(0))},
		}},
		Volumes: append(spec.Volumes, corev1.Volume{
			Name: "usr", VolumeSource: corev1.VolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: "/usr"}},
		}),
	}}
	if _, err := pods.Create(t.Context(), pod, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = pods.Delete(context.Background(), pod.Name, metav1.DeleteOptions{}) })
	eventually(t, 30*time.Second, func() string {
		got, err := pods.Get(t.Context(), pod.Name, metav1.GetOptions{})
		if err != nil {
			return err.Error()
		}
		if got.Status.Phase != corev1.PodSucceeded {
			return "the pod that writes is " + string(got.Status.Phase)
		}
		return ""
	})
	said, err := pods.GetLogs(pod.Name, &corev1.PodLogOptions{}).DoRaw(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(said), "done") || strings.Contains(string(said), "wrote") {
		t.Errorf("writing below the root that the probe sees:\n%s", said)
	}
	nothingLeft(t)
}
