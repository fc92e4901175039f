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
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/calico-probe/calico-probe/probe"
)

// tenant runs a script in a pod on node-b that has no privileges, but is root in the
// node's network, with folders of the node mounted where they are on it. The programs are
// the node's. It returns the UID of the pod.
func tenant(t testing.TB, name, script string, folders ...string) types.UID {
	t.Helper()
	pods := kube(t).CoreV1().Pods("default")
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: corev1.PodSpec{
		NodeName: "node-b", HostNetwork: true, TerminationGracePeriodSeconds: new(int64(0)),
		Containers: []corev1.Container{{
			Name: "c", Image: "sandbox.local/workload:1", ImagePullPolicy: corev1.PullIfNotPresent,
			Command: []string{"/bin/bash", "-ec", script}, SecurityContext: &corev1.SecurityContext{RunAsUser: new(int64(0))},
			Env: []corev1.EnvVar{{Name: "UID_OF_POD", ValueFrom: &corev1.EnvVarSource{
				FieldRef: &corev1.ObjectFieldSelector{FieldPath: "metadata.uid"},
			}}},
		}},
	}}
	container := &pod.Spec.Containers[0]
	mount := func(name, path, sub string, from corev1.VolumeSource) {
		if sub == "" {
			pod.Spec.Volumes = append(pod.Spec.Volumes, corev1.Volume{Name: name, VolumeSource: from})
		}
		container.VolumeMounts = append(container.VolumeMounts, corev1.VolumeMount{Name: name, MountPath: path, SubPath: sub})
	}
	mount("work", "/own", "", corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}})
	mount("usr", "/usr", "", corev1.VolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: "/usr"}})
	for _, dir := range []string{"bin", "lib", "lib64"} {
		mount("usr", "/"+dir, dir, corev1.VolumeSource{})
	}
	for i, folder := range folders {
		mount(fmt.Sprintf("folder-%d", i), folder, "",
			corev1.VolumeSource{HostPath: &corev1.HostPathVolumeSource{
				Path: folder, Type: new(corev1.HostPathDirectoryOrCreate),
			}})
	}
	t.Cleanup(func() {
		if err := pods.Delete(context.Background(), name,
			metav1.DeleteOptions{GracePeriodSeconds: new(int64(0))}); err != nil {
			t.Error(err)
		}
		eventually(t, time.Minute, func() string {
			if got, err := pods.Get(context.Background(), name, metav1.GetOptions{}); err == nil {
				return name + " is " + string(got.Status.Phase)
			}
			return ""
		})
	})
	made, err := pods.Create(t.Context(), pod, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	eventually(t, time.Minute, func() string {
		got, err := pods.Get(t.Context(), name, metav1.GetOptions{})
		switch {
		case err != nil:
			return err.Error()
		case got.Status.Phase != corev1.PodRunning:
			return name + " is " + string(got.Status.Phase)
		}
		return ""
	})
	return made.UID
}

// TestPodCalledKubelet starts a pod with a process that has the kubelet's name and its own arguments, and then a
// kubelet, whose process has the higher ID.
func TestPodCalledKubelet(t *testing.T) {
	const node = "node-b"
	nodeReady(t, node)
	const ids = "kubelet-health,node-swap,cri-health,containerd-health,dns-cluster"
	answers := func() string {
		t.Helper()
		d, _ := report(t, "run", "--node", node, "--checks", ids, "--via", "pod")
		var out []string
		for _, r := range d.Results {
			if r.Node == "" && strings.Contains(ids, r.Check) {
				out = append(out, fmt.Sprint(r.Check, " ", r.Target, " ", r.Status, " ",
					r.Facts["address"], " ", r.Facts["allowed"], " ", r.Facts["socket"]))
			}
		}
		if len(out) < 6 {
			t.Fatalf("few answers: %q", out)
		}
		slices.Sort(out)
		return strings.Join(out, "\n")
	}
	before := answers()
	tenant(t, "e2e-kubelet", `cp /bin/bash /own/kubelet; exec /own/kubelet -c 'while sleep 1; do :; done' kubelet `+
		`--fail-swap-on=true --healthz-port=1 --container-runtime-endpoint=unix:///run/nothing.sock --config=/nothing --cluster-domain=example`)
	shell(t, node, `old=$(grep -L kubepods $(grep -l '^kubelet$' /proc/[0-9]*/comm | sed s/comm/cgroup/) | cut -d/ -f3)
kill -KILL $old
new=$old
for i in $(seq 100); do
  sleep 0.2
  new=$(grep -L kubepods $(grep -l '^kubelet$' /proc/[0-9]*/comm | sed s/comm/cgroup/) | cut -d/ -f3)
  if [ -n "$new" ] && [ "$new" != "$old" ]; then break; fi
done
test "$new" != "$old"
first=$(grep -l '^kubelet$' /proc/[0-9]*/comm | cut -d/ -f3 | sort -n | head -1)
test "$first" != "$new"`)
	nodeReady(t, node)
	var after string
	eventually(t, time.Minute, func() string { // the kubelet is starting
		if after = answers(); after != before {
			return fmt.Sprintf("before:\n%s\nwith a pod's kubelet:\n%s", before, after)
		}
		return ""
	})
	nothingLeft(t)
}

// TestLaidByATenant has a pod that may write to the node's folders replace files with named pipes and links.
func TestLaidByATenant(t *testing.T) {
	const node, networks = "node-b", "/var/lib/cni/networks/k8s-pod-network"
	nodeReady(t, node)
	t.Cleanup(func() { shell(t, node, "rm -rf "+networks) })
	uid := tenant(t, "e2e-tenant", `echo "written by a tenant"
log=/var/log/pods/default_e2e-tenant_$UID_OF_POD/c/0.log
touch `+networks+`/10.244.9.9; mkfifo `+networks+`/lock
while :; do
  while [ ! -e /own/lay ]; do sleep 0.1; done
  what=$(cat /own/lay); rm -f /own/lay
  case $what in pipe) mkfifo $log.new;; zero) ln -s /dev/zero $log.new;; *) ln -s $what $log.new;; esac
  mv -fT $log.new $log # at once: the kubelet has a log that is missing made anew
  touch /own/laid
done`, "/var/log/pods", networks)
	work := func(script string) {
		t.Helper()
		// The kubelet may not have removed the folders of an earlier pod.
		shell(t, node, `cd /var/lib/kubelet/pods/`+string(uid)+`/volumes/kubernetes.io~empty-dir/work && `+script)
	}
	logs := func() answer {
		t.Helper()
		return call(t, "shell", "--node", node, "-c", "logs e2e-tenant")
	}
	if a := logs(); a.exit != 0 || !strings.Contains(a.stdout, "written by a tenant") {
		t.Fatalf("exit %d: %s%s", a.exit, a.stdout, a.stderr)
	}
	d, _ := report(t, "run", "--node", node, "--via", "pod")
	d.want(t, "ipam-files", probe.Unknown, "lock is a named pipe and not a file: not read")
	if len(d.Methods) == 0 || !d.Methods[len(d.Methods)-1].Complete {
		t.Errorf("%+v", d.Methods)
	}
	d.want(t, "kubelet-health", probe.OK, "healthz")
	for what, says := range map[string]string{"pipe": "is a named pipe and not a file: not read", "zero": "is a device and not a file: not read",
		"/etc/shadow": "leads to /etc/shadow, which is not a log of this container: not read", "/proc/kmsg": "the kernel generates it"} {
		work("rm -f laid; echo " + what + " >lay.new; mv lay.new lay; for i in $(seq 100); do if [ -e laid ]; then exit 0; fi; sleep 0.1; done; ls -la . /var/log/pods/*tenant*/c >&2; exit 1")
		if a := logs(); a.exit != 5 && a.exit != 3 || !strings.Contains(a.stdout+a.stderr, says) ||
			strings.Contains(a.stdout, "root:") {
			t.Errorf("%s: exit %d: %s%s", what, a.exit, a.stdout, a.stderr)
		}
	}
	nothingLeft(t)
}
