package cluster

import (
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/probe/facts"
)

// said is an event of the kubelet's about calico-node's container.
func said(reason, message string, before time.Duration) corev1.Event {
	return corev1.Event{Reason: reason, Message: message, LastTimestamp: ago(before),
		Source:         corev1.EventSource{Component: "kubelet", Host: "a"},
		InvolvedObject: corev1.ObjectReference{FieldPath: "spec.containers{calico-node}"}}
}

// TestBrokenIn has the kubelet's words for probes that cannot work, and for some that report a fault.
func TestBrokenIn(t *testing.T) {
	for text, want := range map[string]string{
		"Liveness probe failed: calico/node is not ready: bird is not live: fork/exec /bin/birdcl: no such file or directory":                         facts.ProbeLiveness,
		"Liveness probe failed: Error: unknown shorthand flag: 'l' in -l":                                                                             facts.ProbeLiveness,
		`Startup probe errored: rpc error: code = Unknown desc = failed to exec in container: exec: "/bin/x": stat /bin/x: no such file or directory`: facts.ProbeStartup,
		"Readiness probe failed: flag provided but not defined: -bird-ready":                                                                          facts.ProbeReadiness,
		"Readiness probe failed: calico/node is not ready: BIRD is not ready: dial unix /var/run/bird/bird.ctl: connect: no such file or directory":   "",
		"Liveness probe failed: Get \"http://localhost:9099/liveness\": dial tcp 127.0.0.1:9099: connect: connection refused":                         "",
	} {
		got := ""
		if b := brokenIn([]corev1.Event{said("Unhealthy", text, time.Minute)}, "a"); b != nil {
			got = b.kind
		}
		if got != want {
			t.Errorf("%s: %q, want %q", text, got, want)
		}
	}
	hook := said("FailedPostStartHook", `Exec lifecycle hook ([/bin/x]) failed - error: exec: "/bin/x": executable file not found in $PATH`, 0)
	if b := brokenIn([]corev1.Event{hook}, "a"); b == nil || b.kind != facts.ProbePostStart {
		t.Errorf("%+v", b)
	}
	hook.Source.Component = "somebody"
	if b := brokenIn([]corev1.Event{hook}, "a"); b != nil {
		t.Errorf("not the kubelet's: %+v", b)
	}
}

// TestBrokenProbe wants a loop to be a fault, one restart to be none yet, and an event of an earlier run to be history.
func TestBrokenProbe(t *testing.T) {
	const words = "Liveness probe failed: Error: unknown shorthand flag: 'l' in -l"
	for name, c := range map[string]struct {
		restarts int32
		event    time.Duration // before now
		want     probe.Status
		quoted   bool
	}{
		"in a loop":           {5, 50 * time.Second, probe.Fail, true},
		"once":                {1, 50 * time.Second, probe.Warn, true},
		"of the present run":  {5, 10 * time.Second, probe.Fail, true},
		"near: long ago":      {5, time.Hour, probe.Warn, false},
		"near: before a loop": {5, 3 * time.Minute, probe.Warn, false},
	} {
		s := snapshot(node("a", "10.0.0.1", ""))
		s.Calico.Value = calico(3)
		s.Calico.Value.Status.ContainerStatuses[0] = corev1.ContainerStatus{Name: "calico-node", Ready: true,
			RestartCount: c.restarts,
			State:        corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: ago(20 * time.Second)}},
			LastTerminationState: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: 137,
				StartedAt: ago(2 * time.Minute), FinishedAt: ago(30 * time.Second)}}}
		s.startup.Value.broken = brokenIn([]corev1.Event{said("Unhealthy", words, c.event)}, "a")
		got := ask(t, s, facts.CheckCalicoPod)
		if len(got) != 1 || got[0].Status != c.want || strings.Contains(got[0].Saw, words) != c.quoted ||
			(got[0].Facts[facts.BrokenProbe] != nil) != c.quoted {
			t.Errorf("%s: %v", name, got)
		}
	}
	s := snapshot(node("a", "10.0.0.1", ""))
	p := corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: "calico-kube-controllers-x", UID: "u"}}
	p.Spec.NodeName = "a"
	p.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "calico-node", RestartCount: 4,
		State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: ago(20 * time.Second)}}}}
	s.controllers.Value = []corev1.Pod{p}
	events := []corev1.Event{said("Unhealthy", words, 5*time.Second)}
	s.startup.Value.others = map[types.UID]*brokenProbe{"u": brokenIn(events, "a")}
	wantFirst(t, ask(t, s, facts.CheckControllers), probe.Fail, words)
}
