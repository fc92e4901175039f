package api

import (
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/calico-probe/calico-probe/internal/cluster"
	"github.com/calico-probe/calico-probe/internal/cluster/clustertest"
	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/probe/facts"
)

// TestPodsAreStarting expects pods that have not started to be counted, even after a few seconds.
func TestPodsAreStarting(t *testing.T) {
	t.Parallel()
	s := clustertest.Snapshot(clustertest.Node("a", "10.0.0.1", ""))
	p := &corev1.Pod{}
	p.Namespace, p.Name = "default", "young"
	s.Placed.Pods.Value = make([]corev1.Pod, 3)
	s.Placed.Waiting.Value = []cluster.Waiter{{Pod: p, Since: s.Now.Add(-5 * time.Second)}}
	if r := started(s); r.Saw != "1 of 3 pods on this node still starting, the first for 5s: default/young" {
		t.Errorf("%q", r.Saw)
	}
	s.Placed.Waiting.Value = nil
	if r := started(s); !strings.HasPrefix(r.Saw, "all pods on this node") {
		t.Errorf("%q", r.Saw)
	}
}

// Messages of real kubelets, with Calico v3.32.1 and containerd, and of older ones.
const (
	saidSandbox = `Failed to create pod sandbox: rpc error: code = Unknown desc = failed to setup network for sandbox "ID64": `
	saidFull    = saidSandbox + `plugin type="calico" failed (add): failed to request IPv4 addresses: Assigned 0 out of 1 requested IPv4 addresses; No IPs available in pools: [10.245.0.0/29]`
	saidToken   = saidSandbox + `plugin type="calico" failed (add): error getting ClusterInformation: connection is unauthorized: Unauthorized`
	saidDocker  = `Failed to create pod sandbox: rpc error: code = Unknown desc = failed to set up sandbox container "ID64" network for pod "app": networkPlugin cni failed to set up pod "app_default" network: stat /var/lib/calico/nodename: no such file or directory`
	saidNoCNI   = `network is not ready: container runtime network not ready: NetworkReady=false reason:NetworkPluginNotReady message:Network plugin returns error: cni plugin not initialized`
)

func TestPodsStart(t *testing.T) {
	creating := func(n int, age time.Duration) []corev1.Pod {
		var out []corev1.Pod
		for i := range n {
			out = append(out, clustertest.Hanging(fmt.Sprintf("app-%d", i), age, "ContainerCreating", ""))
		}
		if n > 1 {
			out[n-1].Namespace = "team-b" // a single namespace: TestOneTenant
		}
		return out
	}
	away := `failed to do request: Head "https://x": dial tcp 10.9.9.9:443: i/o timeout`
	one := func(reason string, change func(*corev1.Pod)) []corev1.Pod {
		p := clustertest.Hanging("a", time.Hour, reason, "")
		change(&p)
		return []corev1.Pod{p}
	}
	wants := func(names ...string) []corev1.Pod {
		var out []corev1.Pod
		for _, name := range names {
			out = append(out, clustertest.Hanging(name, time.Hour, "ErrImagePull", away))
		}
		return out
	}
	runs := corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}
	running := clustertest.Hanging("well", time.Hour, "", "")
	running.Status.ContainerStatuses = []corev1.ContainerStatus{{State: runs}}
	for name, c := range map[string]struct {
		event, text string
		pods        []corev1.Pod
		status      probe.Status
		starts      string
		saw         string
	}{
		"all run":         {"", "", []corev1.Pod{running}, probe.OK, "", "all pods on this node have started (1 pod)"},
		"just young":      {cluster.EventSandbox, saidToken, creating(5, 19*time.Second), probe.OK, "", ""},
		"young, no event": {"", "", creating(5, 50*time.Second), probe.OK, "", ""},
		"no address":      {cluster.EventSandbox, saidFull, creating(10, 44*time.Second), probe.Fail, facts.StartsAddresses, "10 pods (default/app-0, default/app-1, default/app-2 and 7 more) waiting for 44s: no address: failed to setup network for sandbox: plugin"},
		"one, of the node's": {cluster.EventSandbox, saidToken, creating(1, 3*time.Minute), probe.Fail, facts.StartsCNI,
			"Unauthorized"},
		"one, lately": {cluster.EventSandbox, saidDocker, creating(1, 44*time.Second), probe.Warn, facts.StartsCNI,
			"nodename"},
		"dockershim": {cluster.EventSandbox, saidDocker, creating(2, 3*time.Minute), probe.Fail, facts.StartsCNI,
			"nodename"},
		"no configuration": {cluster.EventNetwork, saidNoCNI, creating(2, 3*time.Minute), probe.Fail, facts.StartsNetwork,
			""},
		"the runtime": {cluster.EventSandbox, `Failed to create pod sandbox: rpc error: code = DeadlineExceeded desc = context deadline exceeded`, creating(2, 3*time.Minute), probe.Fail, facts.StartsSandbox, "deadline"},
		"no pause image": {cluster.EventSandbox, `Failed to create pod sandbox: rpc error: code = Unknown desc = failed to pull image "registry.k8s.io/pause:3.10": dial tcp: i/o timeout`,
			creating(2, 3*time.Minute), probe.Fail, facts.StartsSandbox, "failed to pull image"},
		"no cgroup of the pod": {cluster.EventCgroup, `unable to ensure pod container exists: failed to create container for [kubepods besteffort poda-uid] : mkdir /sys/fs/cgroup/memory/kubepods/besteffort/poda-uid: cannot allocate memory`,
			creating(2, 3*time.Minute), probe.Fail, facts.StartsSandbox, "from the runtime: failed to create container for"},
		"no event": {"", "", creating(2, 3*time.Minute), probe.Fail, facts.StartsUnreported, "reports no reason"},
		"not begun": {"", "", []corev1.Pod{clustertest.Hanging("a", 3*time.Minute, "", "")}, probe.Warn,
			facts.StartsUnreported, ""},
		"pulling": {cluster.EventPulling, `Pulling image "x"`, creating(2, 3*time.Minute),
			probe.Info, facts.StartsPulling, ""},
		"no such image":  {"", "", []corev1.Pod{clustertest.Hanging("a", time.Hour, "ImagePullBackOff", `Back-off pulling image "a": not found`)}, probe.Info, facts.StartsOwn, ""},
		"one registry":   {"", "", wants("a", "a"), probe.Info, facts.StartsImage, ""},
		"all registries": {"", "", wants("a", "b"), probe.Warn, facts.StartsImage, "cannot pull"},
		"no ConfigMap":   {cluster.EventMount, `MountVolume.SetUp failed for volume "config" : configmap "app" not found`, creating(3, time.Hour), probe.Info, facts.StartsOwn, ""},
		"no key": {"", "", []corev1.Pod{clustertest.Hanging("a", time.Hour, "CreateContainerConfigError",
			`configmap "x" not found`)}, probe.Info, facts.StartsOwn, ""},
		"crash loop": {"", "", []corev1.Pod{clustertest.Hanging("a", time.Hour, "CrashLoopBackOff", "back-off 5m0s restarting failed container=c pod=a_default(a-uid)")}, probe.Info, facts.StartsOwn, "CrashLoopBackOff: restarting"},
		"a volume":   {cluster.EventAttach, `Multi-Attach error for volume "pvc-1" Volume is already used by pod(s) b`, creating(3, time.Hour), probe.Warn, facts.StartsVolume, ""},
		"being deleted": {"", "", one("ContainerCreating",
			func(p *corev1.Pod) { p.DeletionTimestamp = new(clustertest.Ago(0)) }),
			probe.OK, "", ""},
		"the probe's own": {"", "", one("ContainerCreating", func(p *corev1.Pod) {
			p.Labels = map[string]string{cluster.LabelOfProbes: cluster.NameOfProbes}
		}), probe.OK, "", ""},
		"a host is back": {"", "", one("ContainerCreating", func(p *corev1.Pod) {
			p.Status.Conditions = append(p.Status.Conditions, corev1.PodCondition{Type: corev1.ContainersReady,
				LastTransitionTime: clustertest.Ago(50 * time.Second)})
		}), probe.OK, "", ""},
		"init is at work": {"", "", one("PodInitializing", func(p *corev1.Pod) {
			p.Status.InitContainerStatuses = []corev1.ContainerStatus{{State: runs}}
		}), probe.OK, "", ""},
		"init has no image": {"", "", one("PodInitializing", func(p *corev1.Pod) {
			p.Status.InitContainerStatuses = []corev1.ContainerStatus{{State: corev1.ContainerState{
				Waiting: &corev1.ContainerStateWaiting{Reason: "ImagePullBackOff"}}}}
		}), probe.Info, facts.StartsOwn, ""},
	} {
		t.Run(name, func(t *testing.T) {
			got := ask(t, clustertest.PlacedOn(c.event, c.text, c.pods...), facts.CheckPodsStart)
			clustertest.WantFirst(t, got, c.status, c.saw)
			if starts := got[0].Facts.Str(facts.Starts); starts != c.starts || len(got) != 1 {
				t.Errorf("%d groups, the first for %q, want %q: %v", len(got), starts, c.starts, got)
			}
		})
	}
}

// TestPodsStartBesideCalico expects only a warning while calico-node has just become ready.
func TestPodsStartBesideCalico(t *testing.T) {
	s := clustertest.PlacedOn(cluster.EventSandbox, saidDocker,
		clustertest.Hanging("a", time.Hour, "ContainerCreating", ""),
		clustertest.Hanging("b", time.Hour, "ContainerCreating", ""))
	s.Calico.Value = clustertest.Calico(3)
	s.Calico.Value.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue},
		{Type: corev1.ContainersReady, Status: corev1.ConditionTrue, LastTransitionTime: clustertest.Ago(20 * time.Second)}}
	clustertest.WantFirst(t, ask(t, s, facts.CheckPodsStart), probe.Warn, "just became ready")
	s.Calico.Value.Status.Conditions[1].LastTransitionTime = clustertest.Ago(2 * time.Minute)
	clustertest.WantFirst(t, ask(t, s, facts.CheckPodsStart), probe.Fail, "nodename")
}
