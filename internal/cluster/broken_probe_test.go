package cluster

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

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
		if b := BrokenIn([]corev1.Event{said("Unhealthy", text, time.Minute)}, "a"); b != nil {
			got = b.kind
		}
		if got != want {
			t.Errorf("%s: %q, want %q", text, got, want)
		}
	}
	hook := said("FailedPostStartHook", `Exec lifecycle hook ([/bin/x]) failed - error: exec: "/bin/x": executable file not found in $PATH`, 0)
	if b := BrokenIn([]corev1.Event{hook}, "a"); b == nil || b.kind != facts.ProbePostStart {
		t.Errorf("%+v", b)
	}
	hook.Source.Component = "somebody"
	if b := BrokenIn([]corev1.Event{hook}, "a"); b != nil {
		t.Errorf("not the kubelet's: %+v", b)
	}
}
