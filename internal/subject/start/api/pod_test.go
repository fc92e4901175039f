package api

import (
	"errors"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/calico-probe/calico-probe/internal/cluster/clustertest"
	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/probe/facts"
)

// TestSilentKubelet expects no conclusion from the last status of a kubelet without a lease.
func TestSilentKubelet(t *testing.T) {
	s := clustertest.Snapshot(clustertest.Node("a", "10.0.0.1", ""))
	s.Lease.Err = apierrors.NewNotFound(schema.GroupResource{Resource: "leases"}, "a")
	s.Calico.Value, s.Node.CreationTimestamp = clustertest.Calico(3), clustertest.Ago(time.Hour)
	clustertest.WantFirst(t, ask(t, s, "calico-pod"), probe.Unknown, "the kubelet is silent")
}

func TestCalicoPod(t *testing.T) {
	running := func(age time.Duration) corev1.ContainerState {
		return corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: clustertest.Ago(age)}}
	}
	killed := corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: 137, Reason: "Error",
		StartedAt: clustertest.Ago(3 * time.Minute), FinishedAt: clustertest.Ago(2 * time.Minute)}}
	for name, c := range map[string]struct {
		done   int
		change func(init, main *corev1.ContainerStatus)
		status probe.Status
		saw    string
	}{
		"healthy": {3, nil, probe.OK, "running and ready"},
		"hangs in init": {0, func(i, _ *corev1.ContainerStatus) { i.State = running(34 * time.Minute) }, probe.Fail,
			"Init:0/3: init container upgrade-ipam has been running for 34m"},
		"init begins": {0, func(i, _ *corev1.ContainerStatus) { i.State = running(20 * time.Second) }, probe.Warn,
			"upgrade-ipam"},
		"init failed": {0, func(i, _ *corev1.ContainerStatus) { i.State.Waiting.Reason = "CrashLoopBackOff" }, probe.Fail,
			"CrashLoopBackOff"},
		"not started": {0, nil, probe.Fail, "has not started"},
		"crash loop": {3, func(_, m *corev1.ContainerStatus) {
			m.State = corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "CrashLoopBackOff"}}
			m.LastTerminationState = killed
			m.RestartCount = 9
		}, probe.Fail, "CrashLoopBackOff, 9 restarts; previous container exited 137 (Error) after 60s, "},
		"not ready": {3, func(_, m *corev1.ContainerStatus) { m.Ready = false }, probe.Fail, "has not been ready for 60m"},
		"just restarted": {3, func(_, m *corev1.ContainerStatus) { m.State = running(time.Minute); m.RestartCount = 1 },
			probe.Warn, "1 restart"},
		"old restarts": {3, func(_, m *corev1.ContainerStatus) { m.RestartCount = 7 }, probe.OK, "7 restarts"},
	} {
		s := clustertest.Snapshot(clustertest.Node("a", "10.0.0.1", ""))
		s.Calico.Value = clustertest.Calico(c.done)
		if c.change != nil {
			c.change(&s.Calico.Value.Status.InitContainerStatuses[0], &s.Calico.Value.Status.ContainerStatuses[0])
		}
		t.Run(name, func(t *testing.T) { clustertest.WantFirst(t, ask(t, s, "calico-pod"), c.status, c.saw) })
	}
	clustertest.WantFirst(t, ask(t, clustertest.Snapshot(clustertest.Node("a", "10.0.0.1", "")), "calico-pod"),
		probe.Fail, "no calico-node pod")
	s := clustertest.Snapshot(clustertest.Node("a", "10.0.0.1", ""))
	s.Calico.Err = errors.New("broken")
	clustertest.WantFirst(t, ask(t, s, "calico-pod"), probe.Unknown, "broken")
}

func TestCalicoBudget(t *testing.T) {
	for name, c := range map[string]struct {
		lived  time.Duration
		code   int32
		reason string
		status probe.Status
		saw    string
	}{
		"never ended":       {0, 0, "", probe.OK, "about 70s"},
		"killed by budget":  {62 * time.Second, 137, "Error", probe.Fail, "before it answered"},
		"killed early":      {5 * time.Second, 137, "Error", probe.Info, "after 5s"},
		"exited by itself":  {65 * time.Second, 1, "Error", probe.Info, "exited 1 (Error)"},
		"out of memory":     {65 * time.Second, 137, "OOMKilled", probe.Info, "OOMKilled"},
		"killed much later": {time.Hour, 137, "Error", probe.Info, "60m"},
		"exited on SIGTERM": {62 * time.Second, 0, "Completed", probe.Fail, "before it answered"},
		"killed, and ready": {62 * time.Second, 137, "Error", probe.Info, "exited 137 (Error) after 62s"},
		"killed, and past": {62 * time.Second, 0, "Completed", probe.Warn,
			"killed 3m ago (exit code 0) after 62s, about what the liveness probe allows (70s); the new one is ready"},
		"past, not ready": {62 * time.Second, 0, "Completed", probe.Fail, "before it answered"},
		"ready once more": {62 * time.Second, 137, "Error", probe.Warn, "killed 31s ago (exit code 137) after 62s"},
	} {
		s := clustertest.Snapshot(clustertest.Node("a", "10.0.0.1", ""))
		s.Calico.Value = clustertest.Calico(3)
		running := &s.Calico.Value.Status.ContainerStatuses[0]
		running.State.Running.StartedAt = clustertest.Ago(30 * time.Second)
		ended := 31 * time.Second
		if name == "killed, and ready" { // forty days ago
			running.State.Running.StartedAt = clustertest.Ago(40 * 24 * time.Hour)
			ended = 40*24*time.Hour + time.Second
		}
		if name == "ready once more" { // then Ready means that start-up is complete
			s.Calico.Value.Spec.Containers[0].ReadinessProbe = &corev1.Probe{}
		}
		if strings.Contains(name, "past") {
			running.State.Running.StartedAt, running.Ready = clustertest.Ago(3*time.Minute), name == "killed, and past"
			ended = 3*time.Minute + time.Second
		}
		if c.lived > 0 {
			running.LastTerminationState.Terminated = &corev1.ContainerStateTerminated{
				ExitCode: c.code, Reason: c.reason, StartedAt: clustertest.Ago(ended + c.lived), FinishedAt: clustertest.Ago(ended),
			}
		}
		t.Run(name, func(t *testing.T) { clustertest.WantFirst(t, ask(t, s, "calico-budget"), c.status, c.saw) })
	}
}

// TestBirdProbe expects the reason if a probe checks BIRD but the backend does not run it.
func TestBirdProbe(t *testing.T) {
	for backend, want := range map[string]string{"vxlan": facts.ReasonBirdProbe, "none": facts.ReasonBirdProbe,
		"bird": "", "": ""} {
		s := clustertest.Snapshot(clustertest.Node("a", "10.0.0.1", ""))
		s.Calico.Value, s.Backend.Value = clustertest.Calico(3), backend
		s.Calico.Value.Status.ContainerStatuses[0].Ready = false
		s.Calico.Value.Spec.Containers[0].ReadinessProbe = &corev1.Probe{ProbeHandler: corev1.ProbeHandler{
			Exec: &corev1.ExecAction{Command: []string{"/bin/calico-node", "-felix-ready", "-bird-ready"}},
		}}
		got := ask(t, s, "calico-pod")
		if reason := got[0].Facts.Str(probe.FactReason); reason != want {
			t.Errorf("%q: reason %q, want %q", backend, reason, want)
		}
	}
}

// TestCalicoImage expects the registry's error about a missing image, and distinguishes a missing pod from a broken
// one.
func TestCalicoImage(t *testing.T) {
	s := clustertest.Snapshot(clustertest.Node("a", "10.0.0.1", ""))
	s.Calico.Value = clustertest.Calico(3)
	s.Calico.Value.Status.InitContainerStatuses = []corev1.ContainerStatus{{Name: "upgrade-ipam",
		Image: "docker.io/calico/cni:v3.30.0", State: corev1.ContainerState{
			Waiting: &corev1.ContainerStateWaiting{Reason: "ImagePullBackOff",
				Message: "Back-off pulling image: dial tcp 10.0.0.9:443: i/o timeout"},
		}}}
	got := ask(t, s, "calico-pod")
	clustertest.WantFirst(t, got, probe.Fail, "image docker.io/calico/cni:v3.30.0: Back-off pulling image: dial tcp 10.0.0.9:443: i/o timeout")
	if got[0].Facts.Str(facts.Image) != "docker.io/calico/cni:v3.30.0" ||
		got[0].Facts.Str(facts.APIReason) != "ImagePullBackOff" {
		t.Errorf("%v", got[0].Facts)
	}
	s.Calico.Value = nil
	got = ask(t, s, "calico-pod")
	clustertest.WantFirst(t, got, probe.Fail, `the node's label kubernetes.io/os is ""`)
	if got[0].Facts.Str(probe.FactReason) != facts.ReasonNoPod {
		t.Errorf("%v", got[0].Facts)
	}
	s.Node.Labels = map[string]string{corev1.LabelOSStable: "linux"}
	if got = ask(t, s, "calico-pod"); strings.Contains(got[0].Saw, "label kubernetes.io/os") {
		t.Errorf("%v", got)
	}
	s.Calico.Value = clustertest.Calico(3)
	s.Calico.Value.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "calico-node", RestartCount: 2,
		State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "CrashLoopBackOff"}},
		LastTerminationState: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{Reason: "OOMKilled",
			ExitCode: 137}}}}
	if got = ask(t, s, "calico-pod"); got[0].Facts.Str(facts.LastEnd) != "OOMKilled" ||
		got[0].Facts[facts.Memory] != int64(0) {
		t.Errorf("%v", got)
	}
	s.Calico.Value.Spec.Containers[0].Resources.Limits = corev1.ResourceList{
		corev1.ResourceMemory: resource.MustParse("256Mi")}
	if got = ask(t, s, "calico-pod"); got[0].Facts[facts.Memory] != int64(256<<20) {
		t.Errorf("%v", got)
	}
}

// TestCalicoPulls expects the same facts about calico-node's image and containers as about those of other pods.
func TestCalicoPulls(t *testing.T) {
	for says, want := range map[string]struct {
		reason, refusal, obstacle string
	}{
		`failed to resolve image: failed to do request: Head "https://quay.io/v2/": dial tcp 10.9.9.9:443: i/o timeout`: {
			"ErrImagePull", facts.RefusedUnreachable, ""},
		`failed to resolve image: quay.io/calico/node:v3.33.9: not found`: {"ImagePullBackOff", facts.RefusedAbsent, ""},
		`failed to extract layer sha256:1: failed to get reader from content store: content digest sha256:2: not found`: {
			"ErrImagePull", "", facts.ObstacleStore},
		`failed to create containerd container: failed to create snapshot: missing parent "k8s.io/1/x" bucket: not found`: {
			"CreateContainerError", "", facts.ObstacleStore},
	} {
		s := clustertest.Snapshot(clustertest.Node("node-a", "10.0.0.1", "10.0.0.1/24"))
		s.Calico.Value = clustertest.Calico(3)
		s.Calico.Value.Status.ContainerStatuses = []corev1.ContainerStatus{{
			Name: "calico-node", Image: "quay.io/calico/node:v3.32.1",
			State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: want.reason, Message: says}}}}
		got := ask(t, s, facts.CheckCalicoPod)
		clustertest.WantFirst(t, got, probe.Fail, "")
		if f := got[0].Facts; f.Str(facts.Refusal) != want.refusal || f.Str(facts.Obstacle) != want.obstacle {
			t.Errorf("%s: %v", says, got)
		}
	}
}
