package api

import (
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/calico-probe/calico-probe/internal/cluster"
	"github.com/calico-probe/calico-probe/internal/cluster/clustertest"
	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/probe/facts"
)

// The kubelet's messages of one morning on which BIRD was killed and healed, and Felix failed a minute later.
const (
	saidBIRD  = `Readiness probe failed: calico/node is not ready: BIRD is not ready: dial unix /var/run/calico/bird.ctl: connect: connection refused`
	saidFelix = `Readiness probe failed: calico/node is not ready: felix is not ready: Get "http://localhost:9099/readiness": connection refused`
	saidFork  = `Readiness probe failed: fork/exec /usr/bin/sv: resource temporarily unavailable`
	saidLive  = `Liveness probe failed: calico/node is not live: BIRD is not live`
)

// TestOldProbeFailure expects a message from before the present not-ready period as history, and never in the result
// about the present.
func TestOldProbeFailure(t *testing.T) {
	for name, c := range map[string]struct {
		unready, started time.Duration
		events           []corev1.Event
		current          string // in the result about the present
		history          string
		limit            string
	}{
		"BIRD healed a minute before Felix failed": {12 * time.Second, time.Hour,
			[]corev1.Event{clustertest.Reported(92*time.Second, "Unhealthy", saidBIRD)}, "", "connection refused, 92s ago", ""},
		"again, in a container started since": {130 * time.Second, 79 * time.Second,
			[]corev1.Event{clustertest.Reported(210*time.Second, "Unhealthy", saidBIRD)}, "", "connection refused, 3m ago", ""},
		"the container before, not ready either": {130 * time.Second, 10 * time.Second,
			[]corev1.Event{clustertest.Reported(40*time.Second, "Unhealthy", saidBIRD)}, "", "connection refused, 40s ago", ""},
		"the liveness probe that ended the container before": {130 * time.Second, 10 * time.Second,
			[]corev1.Event{clustertest.Reported(40*time.Second, "Unhealthy", saidLive)}, "BIRD is not live, 40s ago", "", ""},
		"near: of this period": {12 * time.Second, time.Hour,
			[]corev1.Event{clustertest.Reported(92*time.Second, "Unhealthy", saidBIRD),
				clustertest.Reported(2*time.Second, "Unhealthy", saidFelix)}, "felix is not ready", "", ""},
		"near: the event that made it not ready": {12 * time.Second, time.Hour,
			[]corev1.Event{clustertest.Reported(13*time.Second, "Unhealthy", saidFelix)}, "connection refused, 13s ago", "", ""},
		"a limit of long ago": {12 * time.Second, time.Hour,
			[]corev1.Event{clustertest.Reported(time.Hour, "Unhealthy", saidFork),
				clustertest.Reported(2*time.Second, "Unhealthy", saidFelix)}, "felix is not ready", "", ""},
		"near: a limit, over restarts": {5 * time.Minute, 10 * time.Second, []corev1.Event{
			clustertest.Reported(time.Minute, "Unhealthy", saidFork),
			clustertest.Reported(2*time.Second, "Unhealthy", saidFelix)}, "fork/exec", "",
			facts.LimitProcesses},
	} {
		t.Run(name, func(t *testing.T) {
			s := clustertest.Snapshot(clustertest.Node("node-a", "10.0.0.1", ""))
			s.Calico.Value = clustertest.Calico(3)
			s.Calico.Value.Spec.NodeName = "node-a"
			main := &s.Calico.Value.Status.ContainerStatuses[0]
			main.Ready, main.State.Running.StartedAt = false, clustertest.Ago(c.started)
			s.Calico.Value.Status.Conditions = []corev1.PodCondition{{Type: corev1.ContainersReady,
				Status: corev1.ConditionFalse, LastTransitionTime: clustertest.Ago(c.unready)}}
			var err error
			server := clustertest.EventServer(t, "kube-system", c.events...)
			s.Startup.Value.KubeletEvents, err = server.ReadKubeletEvents(t.Context(),
				s.Calico.Value)
			if err != nil {
				t.Fatal(err)
			}
			got := ask(t, s, facts.CheckCalicoPod)
			quotes := strings.Contains(got[0].Saw, "the kubelet reported: ")
			if quotes != (c.current != "") || !strings.Contains(got[0].Saw, c.current) ||
				got[0].Facts.Str(facts.Limit) != c.limit {
				t.Errorf("%+v", got[0])
			}
			clustertest.WantHistory(t, got, c.history)
		})
	}
}

// TestOldRefusal expects a refusal to be history once the DaemonSet controller would have met it again.
func TestOldRefusal(t *testing.T) {
	for age, current := range map[time.Duration]bool{10 * time.Minute: true, 50 * time.Minute: false} {
		s := clustertest.Snapshot(clustertest.Node("node-a", "10.0.0.1", ""))
		var set cluster.CalicoSet
		set.Name, set.Namespace = "calico-node", "kube-system"
		event := clustertest.Reported(age, "FailedCreate", "Error creating: exceeded quota")
		event.Source = corev1.EventSource{Component: cluster.SetController}
		set.Refused = clustertest.EventServer(t, "kube-system", event).Refusal(t.Context(), &set.DaemonSet)
		s.Sets.Value = []cluster.CalicoSet{set}
		got := ask(t, s, facts.CheckCalicoPod)
		want := map[bool]string{true: facts.SkipsRefused, false: facts.SkipsUnexplained}[current]
		if got[0].Facts.Str(facts.Skips) != want || strings.Contains(got[0].Saw, "exceeded quota, 10m ago") != current {
			t.Errorf("%v: %+v", age, got)
		}
		at := slices.IndexFunc(got, func(r probe.Result) bool { return r.Facts[probe.FactHistory] == true })
		if current != (at < 0) {
			t.Errorf("%v: %+v", age, got)
		}
	}
}
