package api

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/calico-probe/calico-probe/internal/cluster"
	"github.com/calico-probe/calico-probe/internal/cluster/clustertest"
	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/probe/facts"
)

// TestStartUnplaced expects the scheduler's reason for this node, and the requests that exceed the node's resources.
func TestStartUnplaced(t *testing.T) {
	for name, c := range map[string]struct{ message, cpu, want string }{
		"recorded": {"0/2 nodes are available: 1 Insufficient cpu, 1 node(s) didn't satisfy plugin(s) [NodeAffinity]. no new claims to deallocate, preemption: 0/2 nodes are available: 2 Preemption is not helpful for scheduling.",
			"64", "has not been scheduled for 60s: Insufficient cpu: it requests cpu 64, and the node has 2 for pods"},
		"a port": {"0/3 nodes are available: 1 node(s) didn't have free ports for the requested pod ports, 2 node(s) didn't match Pod's node affinity/selector. preemption: not eligible",
			"1", "has not been scheduled for 60s: didn't have free ports for the requested pod ports"},
		"no scheduler": {"", "1", "for 60s: no scheduler has processed it"},
		"another form": {"no nodes available to schedule pods", "1", "Unschedulable: no nodes available"},
	} {
		s := clustertest.Snapshot(clustertest.Node("a", "10.0.0.1", ""))
		var set cluster.CalicoSet
		set.Name, set.Namespace = "calico-node", "kube-system"
		s.Sets.Value = []cluster.CalicoSet{set}
		s.Node.Status.Allocatable = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("2")}
		s.Startup.Value.Unplaced.Value = clustertest.StartWaits(c.message, c.cpu)
		got := ask(t, s, facts.CheckCalicoPod)
		t.Run(name, func(t *testing.T) { clustertest.WantFirst(t, got, probe.Fail, c.want) })
		if why := got[0].Facts.Str(facts.Skips); why != facts.SkipsUnscheduled {
			t.Errorf("%s: %q", name, why)
		}
	}
}

// TestKubeletMessage expects the kubelet's message about a calico-node pod that does not start, or with a failing
// probe.
func TestKubeletMessage(t *testing.T) {
	s := clustertest.Snapshot(clustertest.Node("a", "10.0.0.1", ""))
	s.Calico.Value = clustertest.Calico(0)
	s.Calico.Value.Status.InitContainerStatuses = []corev1.ContainerStatus{{Name: "upgrade-ipam",
		State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "PodInitializing"}}}}
	s.Calico.Value.Status.ContainerStatuses = nil
	s.Startup.Value.Waits = &corev1.Event{Reason: cluster.EventMount,
		Message: `MountVolume.SetUp failed for volume "xtables-lock" : hostPath type check failed: /run/xtables.lock is not a file`}
	got := ask(t, s, facts.CheckCalicoPod)
	if len(got) == 0 || !strings.Contains(got[0].Saw, "the kubelet reported: MountVolume.SetUp failed") ||
		got[0].Facts.Str(facts.Starts) != facts.StartsVolume {
		t.Errorf("%v", got)
	}
	s.Startup.Value.Waits = &corev1.Event{Reason: cluster.EventCgroup, Message: "unable to ensure pod container exists: failed to create container for [kubepods burstable podX] : dbus: connection closed by user"}
	if got := ask(t, s, facts.CheckCalicoPod); got[0].Facts.Str(facts.Starts) != facts.StartsSandbox ||
		!strings.Contains(got[0].Saw, "dbus: connection closed") {
		t.Errorf("%v", got)
	}
	s.Startup.Value.KubeletEvents = cluster.KubeletEvents{Limit: facts.LimitProcesses,
		Probes: probe.Statement{Text: "Liveness probe failed: fork/exec /usr/bin/sv: resource temporarily unavailable"}}
	if got := ask(t, s, facts.CheckCalicoPod); got[0].Facts.Str(facts.Limit) != facts.LimitProcesses {
		t.Errorf("%v", got)
	}
	// near: calico-node is healthy, so old messages do not count
	s = clustertest.Snapshot(clustertest.Node("a", "10.0.0.1", ""))
	s.Calico.Value = clustertest.Calico(3)
	s.Startup.Value.KubeletEvents = cluster.KubeletEvents{
		Probes: probe.Statement{Text: "Readiness probe failed"}, Limit: facts.LimitFiles}
	if got := ask(t, s, facts.CheckCalicoPod); got[0].Facts.Str(facts.ProbeSays) != "" {
		t.Errorf("%v", got)
	}
	for text, want := range map[string]string{
		"fork/exec /usr/bin/sv: resource temporarily unavailable":                 facts.LimitProcesses,
		"runtime: failed to create new OS thread (have 9 already; errno=11)":      facts.LimitProcesses,
		"open /proc/1/stat: too many open files":                                  facts.LimitFiles,
		"dial unix /var/run/calico/bird.ctl: connect: connection refused":         "",
		"dial unix /run/bird.ctl: connect: resource temporarily unavailable, why": "",
	} {
		if got := cluster.LimitIn(text); got != want {
			t.Errorf("%s: %q, want %q", text, got, want)
		}
	}
}
