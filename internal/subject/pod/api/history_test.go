package api

import (
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/calico-probe/calico-probe/internal/cluster"
	"github.com/calico-probe/calico-probe/internal/cluster/clustertest"
	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/probe/facts"
)

// TestOldEventsOfPods expects an event from before the pod last ran, or before it was deleted, to be history: it does
// not explain the present wait.
func TestOldEventsOfPods(t *testing.T) {
	waiting := clustertest.Hanging("app", time.Hour, "ContainerCreating", "")
	waiting.Status.ContainerStatuses[0].LastTerminationState.Terminated = &corev1.ContainerStateTerminated{ExitCode: 255}
	waiting.Status.Conditions = append(waiting.Status.Conditions, corev1.PodCondition{Type: corev1.ContainersReady,
		Status: corev1.ConditionFalse, LastTransitionTime: clustertest.Ago(2 * time.Minute)})
	fresh := clustertest.Hanging("app", time.Hour, "ContainerCreating", "")
	ending := clustertest.Doomed("default", 10*time.Minute,
		func(p *corev1.Pod) { p.DeletionGracePeriodSeconds = new(int64(30)) })
	const network = `plugin type="calico" failed (add): no route`
	const kill = `error killing pod: failed to "KillPodSandbox" with KillPodSandboxError: "failed to destroy network for sandbox"`
	for name, c := range map[string]struct {
		pod     corev1.Pod
		event   corev1.Event
		check   string
		want    string // the fact
		saw     string
		history string
	}{
		"before the reboot": {waiting, clustertest.Reported(50*time.Minute, cluster.EventSandbox, network),
			facts.CheckPodsStart,
			facts.StartsUnreported, "reports no reason", "no route, 50m ago"},
		"near: since the reboot": {waiting, clustertest.Reported(time.Minute, cluster.EventSandbox, network),
			facts.CheckPodsStart,
			facts.StartsCNI, "no route, 60s ago", ""},
		"near: of a new pod": {fresh, clustertest.Reported(50*time.Minute, cluster.EventSandbox, network),
			facts.CheckPodsStart,
			facts.StartsCNI, "no route, 50m ago", ""},
		"before it was deleted": {ending, clustertest.Reported(20*time.Minute, facts.EventKill, kill), facts.CheckPodsEnd,
			facts.EndsNotUnreported, "reports no reason", ""},
		"near: since it was deleted": {ending, clustertest.Reported(time.Minute, facts.EventKill, kill), facts.CheckPodsEnd,
			facts.EndsNotCNI, "sandbox\", 60s ago", ""},
	} {
		t.Run(name, func(t *testing.T) {
			c.pod.Spec.NodeName = "node-a"
			s := clustertest.Snapshot(clustertest.Node("node-a", "10.0.0.1", ""))
			s.Placed.Pods.Value = []corev1.Pod{c.pod}
			if w, ok := cluster.Waits(&c.pod); ok {
				s.Placed.Waiting.Value = []cluster.Waiter{w}
			}
			s.Placed.Ending.Value = cluster.Endings(s.Placed.Pods.Value)
			var all probe.Workers
			clustertest.EventServer(t, "default", c.event).ReadWaits(t.Context(), &s.Placed, &all)
			all.Wait()
			got := ask(t, s, c.check)
			word := got[0].Facts.Str(facts.Starts) + got[0].Facts.Str(facts.EndsNot)
			if word != c.want || !strings.Contains(got[0].Saw, c.saw) {
				t.Errorf("%+v", got)
			}
			clustertest.WantHistory(t, got, c.history)
		})
	}
}
