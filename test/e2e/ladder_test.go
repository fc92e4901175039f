//go:build e2e

package e2e

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/calico-probe/calico-probe/probe"
)

// execTarget puts a privileged container with a shell on the network of node-b, by a DaemonSet in
// kube-system as kube-proxy's is; the sandbox's own containers have no shell.
func execTarget(t testing.TB) {
	t.Helper()
	sets, pods := kube(t).AppsV1().DaemonSets("kube-system"), kube(t).CoreV1().Pods("kube-system")
	ours := map[string]string{"e2e": "target"}
	set := &appsv1.DaemonSet{ObjectMeta: metav1.ObjectMeta{Name: "e2e-target"}, Spec: appsv1.DaemonSetSpec{
		Selector: &metav1.LabelSelector{MatchLabels: ours},
		Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: ours}, Spec: withShell("agent")},
	}}
	set.Spec.Template.Spec.NodeSelector = map[string]string{corev1.LabelHostname: "node-b"}
	state := func(ctx context.Context, want int) string {
		got, err := pods.List(ctx, metav1.ListOptions{LabelSelector: "e2e=target"})
		switch {
		case err != nil:
			return err.Error()
		case len(got.Items) != want:
			return fmt.Sprintf("%d pods of the target, want %d", len(got.Items), want)
		case want > 0 && got.Items[0].Status.Phase != corev1.PodRunning:
			return "the target is " + string(got.Items[0].Status.Phase)
		}
		return ""
	}
	t.Cleanup(func() {
		if err := sets.Delete(context.Background(), set.Name, metav1.DeleteOptions{}); err != nil {
			t.Error(err)
		}
		eventually(t, 30*time.Second, func() string { return state(context.Background(), 0) })
	})
	if _, err := sets.Create(t.Context(), set, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	eventually(t, 30*time.Second, func() string { return state(t.Context(), 1) })
}

// withShell is a pod in the node's network with one privileged container that has the
// node's shell.
func withShell(container string) corev1.PodSpec {
	from := func(path string) corev1.VolumeSource {
		return corev1.VolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: path}}
	}
	mounts := []corev1.VolumeMount{
		{Name: "proc", MountPath: "/nodeproc", ReadOnly: true}, {Name: "usr", MountPath: "/usr", ReadOnly: true},
	}
	for _, dir := range []string{"bin", "lib", "lib64"} {
		mounts = append(mounts, corev1.VolumeMount{Name: "usr", MountPath: "/" + dir, SubPath: dir, ReadOnly: true})
	}
	return corev1.PodSpec{
		HostNetwork: true, TerminationGracePeriodSeconds: new(int64(0)),
		Tolerations: []corev1.Toleration{{Operator: corev1.TolerationOpExists}},
		Containers: []corev1.Container{{
			Name: container, Image: "sandbox.local/workload:1", ImagePullPolicy: corev1.PullIfNotPresent,
			Command: []string{"sleep", "infinity"}, VolumeMounts: mounts,
			SecurityContext: &corev1.SecurityContext{Privileged: new(true), RunAsUser: new(int64(0))},
		}},
		Volumes: []corev1.Volume{{Name: "proc", VolumeSource: from("/proc")}, {Name: "usr", VolumeSource: from("/usr")}},
	}
}

// TestByExec requires that a probe in a foreign container gets the same results as a probe in a pod.
func TestByExec(t *testing.T) {
	d, a := report(t, "run", "--node", "node-b", "--via", "exec")
	if a.exit != 5 {
		t.Errorf("exit %d\n%s", a.exit, a.stderr)
	}
	d.want(t, "probe-placed", probe.Unknown, "kube-system/calico-node-", "/calico-node (no shell)")
	execTarget(t)
	d, a = report(t, "run", "--node", "node-b", "--via", "exec", "--skip", "node-load")
	if a.exit != 0 || a.stderr != "" {
		t.Errorf("exit %d\n%s", a.exit, a.stderr)
	}
	d.want(t, "probe-placed", probe.OK, "kube-system/e2e-target-", "/agent")
	// By exec no pod is created on another node, so nothing is seen from outside.
	pod, _ := report(t, "run", "--node", "node-b", "--via", "pod", "--baselines", "0", "--skip", "node-load")
	sameSight(t, pod, d)
	nothingLeft(t)
}

// TestLadderPastTheImage requires that a run succeeds although the probe's image does not exist.
func TestLadderPastTheImage(t *testing.T) {
	slow(t)
	execTarget(t)
	d, a := report(t, "run", "--node", "node-b", "--image", "nowhere.invalid/probe:none", "--via", "pod,ephemeral,exec")
	if a.exit == 5 {
		t.Errorf("exit %d\n%s", a.exit, a.stderr)
	}
	d.want(t, "probe-placed", probe.Info, "pod: this node cannot get image nowhere.invalid/probe:none")
	d.want(t, "probe-placed", probe.Skip, "ephemeral: not tried: it needs the same image")
	d.want(t, "probe-placed", probe.OK, "exec: ")
	nothingLeft(t)
}

// TestLadderPastAFrozenRuntime reproduces incident 001 at its worst: no container starts, but the report names what
// hangs.
func TestLadderPastAFrozenRuntime(t *testing.T) {
	slow(t)
	calicoReady(t, "node-b")
	signalAll(t, "node-b", "containerd", "STOP")
	t.Cleanup(func() { signalAll(t, "node-b", "containerd", "CONT"); nodeReady(t, "node-b") })
	d, a := report(t, append(bySSH(t), "run", "--node", "node-b")...)
	if a.exit != 3 {
		t.Errorf("exit %d after %v\n%s", a.exit, a.took, a.stderr)
	}
	// A kubelet that is blocked by the runtime may not even take the pod up.
	d.want(t, "probe-placed", probe.Info, "pod: ", " within 8")
	d.want(t, "probe-placed", probe.Skip, "ephemeral: not tried: it takes the same")
	// Exec is tried if only the kubelet appears frozen.
	if s := d.way("exec").Status; s != probe.Skip && s != probe.Info {
		t.Errorf("exec: %v", d.way("exec"))
	}
	d.want(t, "probe-placed", probe.OK, "ssh: ")
	d.want(t, "containerd-health", probe.Fail, "does not answer within")
	t.Logf("%v", a.took.Round(100*time.Millisecond))
	signalAll(t, "node-b", "containerd", "CONT")
	nothingLeft(t)
}

// TestLadderPastADeadKubelet reproduces incident 003a.
func TestLadderPastADeadKubelet(t *testing.T) {
	slow(t)
	const node = "node-b"
	shell(t, node, "touch /var/lib/calico/sandbox/kubelet.down")
	signalAll(t, node, "kubelet", "KILL")
	t.Cleanup(func() { shell(t, node, "rm -f /var/lib/calico/sandbox/kubelet.down"); nodeReady(t, node) })
	eventually(t, 90*time.Second, func() string { // the lease runs out
		d, _ := report(t, "run", "--node", node, "--via", "api")
		if slices.ContainsFunc(d.of("node-lease"), func(r located) bool { return r.Status == probe.Fail }) {
			return ""
		}
		return "the lease still runs"
	})
	d, a := report(t, append(bySSH(t), "run", "--node", node)...)
	if a.exit != 3 {
		t.Errorf("exit %d after %v\n%s", a.exit, a.took, a.stderr)
	}
	d.want(t, "probe-placed", probe.Info, "pod: the kubelet of node-b did not start pod")
	d.want(t, "probe-placed", probe.Skip, "ephemeral: not tried: it needs the same kubelet")
	d.want(t, "probe-placed", probe.Info, "exec: the API server does not reach the kubelet's port 10250", "refused")
	d.want(t, "probe-placed", probe.OK, "ssh: ")
	d.want(t, "kubelet-health", probe.Fail, "refused")
	t.Logf("%v", a.took.Round(100*time.Millisecond))
	nothingLeft(t)
}

// TestLadderPastAFrozenKubelet is the same with a kubelet that does not answer: the run tries two containers and no
// more.
func TestLadderPastAFrozenKubelet(t *testing.T) {
	slow(t)
	calicoReady(t, "node-b")
	execTarget(t)
	signalAll(t, "node-b", "kubelet", "STOP")
	t.Cleanup(func() { signalAll(t, "node-b", "kubelet", "CONT"); nodeReady(t, "node-b") })
	d, a := report(t, append(bySSH(t), "run", "--node", "node-b")...)
	if a.exit != 3 {
		t.Errorf("exit %d after %v\n%s", a.exit, a.took, a.stderr)
	}
	d.want(t, "probe-placed", probe.Info, "pod: the kubelet of node-b did not start pod")
	d.want(t, "probe-placed", probe.Info, "exec: entering container ", "no reply in time (2s)")
	d.want(t, "probe-placed", probe.OK, "ssh: ")
	d.want(t, "kubelet-health", probe.Fail, "no answer")
	t.Logf("%v", a.took.Round(100*time.Millisecond))
	signalAll(t, "node-b", "kubelet", "CONT")
	nothingLeft(t)
}

// TestNothingIsLeftByExec ends runs in a foreign container at random moments.
func TestNothingIsLeftByExec(t *testing.T) {
	slow(t)
	execTarget(t)
	folder := func(does string) {
		shell(t, "node-b", "for d in /proc/[0-9]*/root; do if [ -d $d/nodeproc ]; then "+does+" $d/run/calico-probe-00000000 && break; fi; done")
	}
	folder("mkdir -p")
	if left(t) == "" {
		t.Error("this test sees no folder in a container where there is one")
	}
	folder("rmdir")
	leftByNone(t, "node-b", "exec")
}

// way is what became of one access method.
func (d document) way(name string) located {
	for _, r := range d.of("probe-placed") {
		if r.Target == name {
			return r
		}
	}
	return located{}
}

// TestLadderPastAClosedPort has a probe in a pod that is unreachable because the API server cannot reach the kubelet.
// The run must succeed anyway.
func TestLadderPastAClosedPort(t *testing.T) {
	slow(t)
	const rule = "INPUT -p tcp --dport 10250 -j REJECT --reject-with tcp-reset"
	shell(t, "node-b", "iptables -I "+rule)
	t.Cleanup(func() { shell(t, "node-b", "iptables -D "+rule) })
	d, a := report(t, append(bySSH(t), "run", "--node", "node-b")...)
	if a.exit != 3 {
		t.Errorf("exit %d\n%s", a.exit, a.stderr)
	}
	d.want(t, "probe-answered", probe.Info, "10250: connect: connection refused")
	d.want(t, "probe-placed", probe.Skip, "exec: not tried: it uses the kubelet's port 10250 too")
	d.want(t, "probe-placed", probe.OK, "ssh: ")
	d.want(t, "kubelet-health", probe.Fail, "api: connection to 127.0.0.1:10250 refused")
	nothingLeft(t)
}

// TestLadderToItsEnd requires that the report lists every access method tried, and why each failed.
func TestLadderToItsEnd(t *testing.T) {
	slow(t)
	d, a := report(t, append(bySSH(t, "IdentityFile", "IdentityFile /nowhere #"), "run", "--node", "node-a", "--image",
		"nowhere.invalid/probe:none")...)
	if a.exit != 5 {
		t.Errorf("exit %d\n%s", a.exit, a.stderr)
	}
	d.want(t, "probe-placed", probe.Unknown, "pod: image")
	d.want(t, "probe-placed", probe.Skip, "ephemeral: ")
	d.want(t, "probe-placed", probe.Unknown, "exec: the probe runs in no container of the node's network")
	d.want(t, "probe-placed", probe.Unknown, "ssh: ", "permission denied", "were not asked")
	nothingLeft(t)
}
