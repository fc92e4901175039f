package cluster

import (
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

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

// reported is an event of the kubelet's on node-a.
func reported(before time.Duration, reason, message string) corev1.Event {
	return corev1.Event{Reason: reason, Message: message, LastTimestamp: ago(before),
		Source: corev1.EventSource{Component: "kubelet", Host: "node-a"}}
}

// eventServer answers with some events of one namespace.
func eventServer(t *testing.T, namespace string, events ...corev1.Event) *Client {
	t.Helper()
	kind := metav1.TypeMeta{Kind: "EventList", APIVersion: "v1"}
	text, err := json.Marshal(corev1.EventList{TypeMeta: kind, Items: events})
	if err != nil {
		t.Fatal(err)
	}
	return serverOf(t, map[string]string{"/api/v1/namespaces/" + namespace + "/events": string(text)},
		map[string]http.HandlerFunc{})
}

// TestOldProbeFailure wants a message from before the present not-ready period shown as history, and never in the
// result that says what is wrong now.
func TestOldProbeFailure(t *testing.T) {
	for name, c := range map[string]struct {
		unready, started time.Duration
		events           []corev1.Event
		says             string // in the result about the present
		history          string
		limit            string
	}{
		"BIRD healed a minute before Felix failed": {12 * time.Second, time.Hour,
			[]corev1.Event{reported(92*time.Second, "Unhealthy", saidBIRD)}, "", "connection refused, 92s ago", ""},
		"again, in a container started since": {130 * time.Second, 79 * time.Second,
			[]corev1.Event{reported(210*time.Second, "Unhealthy", saidBIRD)}, "", "connection refused, 3m ago", ""},
		"the container before, not ready either": {130 * time.Second, 10 * time.Second,
			[]corev1.Event{reported(40*time.Second, "Unhealthy", saidBIRD)}, "", "connection refused, 40s ago", ""},
		"the liveness probe that ended the container before": {130 * time.Second, 10 * time.Second,
			[]corev1.Event{reported(40*time.Second, "Unhealthy", saidLive)}, "BIRD is not live, 40s ago", "", ""},
		"near: of this period": {12 * time.Second, time.Hour, []corev1.Event{reported(92*time.Second, "Unhealthy", saidBIRD),
			reported(2*time.Second, "Unhealthy", saidFelix)}, "felix is not ready", "", ""},
		"near: the event that made it not ready": {12 * time.Second, time.Hour,
			[]corev1.Event{reported(13*time.Second, "Unhealthy", saidFelix)}, "connection refused, 13s ago", "", ""},
		"a limit of long ago": {12 * time.Second, time.Hour, []corev1.Event{reported(time.Hour, "Unhealthy", saidFork),
			reported(2*time.Second, "Unhealthy", saidFelix)}, "felix is not ready", "", ""},
		"near: a limit, over restarts": {5 * time.Minute, 10 * time.Second, []corev1.Event{
			reported(time.Minute, "Unhealthy", saidFork), reported(2*time.Second, "Unhealthy", saidFelix)}, "fork/exec", "",
			facts.LimitProcesses},
	} {
		t.Run(name, func(t *testing.T) {
			s := snapshot(node("node-a", "10.0.0.1", ""))
			s.Calico.Value = calico(3)
			s.Calico.Value.Spec.NodeName = "node-a"
			main := &s.Calico.Value.Status.ContainerStatuses[0]
			main.Ready, main.State.Running.StartedAt = false, ago(c.started)
			s.Calico.Value.Status.Conditions = []corev1.PodCondition{{Type: corev1.ContainersReady,
				Status: corev1.ConditionFalse, LastTransitionTime: ago(c.unready)}}
			var err error
			s.startup.Value.told, err = eventServer(t, "kube-system", c.events...).readTold(t.Context(), s.Calico.Value)
			if err != nil {
				t.Fatal(err)
			}
			got := ask(t, s, facts.CheckCalicoPod)
			quotes := strings.Contains(got[0].Saw, "the kubelet reported: ")
			if quotes != (c.says != "") || !strings.Contains(got[0].Saw, c.says) || got[0].Facts.Str(facts.Limit) != c.limit {
				t.Errorf("%+v", got[0])
			}
			wantHistory(t, got, c.history)
		})
	}
}

// wantHistory wants one result with this end that is marked as history, or none.
func wantHistory(t *testing.T, got []probe.Result, end string) {
	t.Helper()
	var old []string
	for _, r := range got {
		if r.Facts[probe.FactHistory] == true {
			old = append(old, r.Saw)
		}
	}
	want := map[bool]int{true: 0, false: 1}[end == ""]
	if len(old) != want || want == 1 && (!strings.HasPrefix(old[0], "history: ") || !strings.HasSuffix(old[0], end)) {
		t.Errorf("history %q, want %q", old, end)
	}
}

// TestOldEventsOfPods wants what the kubelet reported of a pod before it last ran, or before it was deleted, to say
// nothing of why it waits now.
func TestOldEventsOfPods(t *testing.T) {
	waiting := hanging("app", time.Hour, "ContainerCreating", "")
	waiting.Status.ContainerStatuses[0].LastTerminationState.Terminated = &corev1.ContainerStateTerminated{ExitCode: 255}
	waiting.Status.Conditions = append(waiting.Status.Conditions, corev1.PodCondition{Type: corev1.ContainersReady,
		Status: corev1.ConditionFalse, LastTransitionTime: ago(2 * time.Minute)})
	fresh := hanging("app", time.Hour, "ContainerCreating", "")
	ending := doomed("default", 10*time.Minute, func(p *corev1.Pod) { p.DeletionGracePeriodSeconds = new(int64(30)) })
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
		"before the reboot": {waiting, reported(50*time.Minute, eventSandbox, network), facts.CheckPodsStart,
			facts.StartsUnsaid, "does not say why", "no route, 50m ago"},
		"near: since the reboot": {waiting, reported(time.Minute, eventSandbox, network), facts.CheckPodsStart,
			facts.StartsCNI, "no route, 60s ago", ""},
		"near: of a new pod": {fresh, reported(50*time.Minute, eventSandbox, network), facts.CheckPodsStart,
			facts.StartsCNI, "no route, 50m ago", ""},
		"before it was deleted": {ending, reported(20*time.Minute, facts.EventKill, kill), facts.CheckPodsEnd,
			facts.EndsNotUnsaid, "does not say why", ""},
		"near: since it was deleted": {ending, reported(time.Minute, facts.EventKill, kill), facts.CheckPodsEnd,
			facts.EndsNotCNI, "sandbox\", 60s ago", ""},
	} {
		t.Run(name, func(t *testing.T) {
			c.pod.Spec.NodeName = "node-a"
			s := snapshot(node("node-a", "10.0.0.1", ""))
			s.placed.pods.Value = []corev1.Pod{c.pod}
			if w, ok := waits(&c.pod); ok {
				s.placed.waiting.Value = []waiter{w}
			}
			s.placed.ending.Value = endings(s.placed.pods.Value)
			var all probe.Workers
			eventServer(t, "default", c.event).readWaits(t.Context(), &s.placed, &all)
			all.Wait()
			got := ask(t, s, c.check)
			word := got[0].Facts.Str(facts.Starts) + got[0].Facts.Str(facts.EndsNot)
			if word != c.want || !strings.Contains(got[0].Saw, c.saw) {
				t.Errorf("%+v", got)
			}
			wantHistory(t, got, c.history)
		})
	}
}

// TestOldRefusal wants a refusal that the DaemonSet controller would have met again by now to be no reason.
func TestOldRefusal(t *testing.T) {
	for age, current := range map[time.Duration]bool{10 * time.Minute: true, 50 * time.Minute: false} {
		s := snapshot(node("node-a", "10.0.0.1", ""))
		var set calicoSet
		set.Name, set.Namespace = "calico-node", "kube-system"
		event := reported(age, "FailedCreate", "Error creating: exceeded quota")
		event.Source = corev1.EventSource{Component: setController}
		set.refused = eventServer(t, "kube-system", event).refusal(t.Context(), &set.DaemonSet)
		s.sets.Value = []calicoSet{set}
		got := ask(t, s, facts.CheckCalicoPod)
		want := map[bool]string{true: facts.SkipsRefused, false: facts.SkipsUnsaid}[current]
		if got[0].Facts.Str(facts.Skips) != want || strings.Contains(got[0].Saw, "exceeded quota, 10m ago") != current {
			t.Errorf("%v: %+v", age, got)
		}
		at := slices.IndexFunc(got, func(r probe.Result) bool { return r.Facts[probe.FactHistory] == true })
		if current != (at < 0) {
			t.Errorf("%v: %+v", age, got)
		}
	}
}
