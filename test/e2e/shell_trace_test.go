//go:build e2e

package e2e

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// TestTraceHasAPodOfItsOwn requires packet paths by pod, from the node and from a pod. Only this command's pod may have
// the capabilities that load BPF programs, and it must not be privileged.
func TestTraceHasAPodOfItsOwn(t *testing.T) {
	nodeReady(t, "node-a")
	nodeReady(t, "node-b")
	_, far := podOn(t, "default", "workload-b", "node-b")
	for _, c := range []struct {
		line string
		exit int
		says []string
		adds []string // capabilities of the second pod
	}{
		{"ping -c 1 " + far, 0, nil, nil},
		{"drops --trace " + far, 0, []string{"17 echoes sent", "the node: left eth0", "→ arrived"},
			[]string{"BPF", "NET_ADMIN", "NET_RAW", "PERFMON", "SYS_PTRACE"}},
		{"in workload-a drops --trace 10.96.0.1:443", 0,
			[]string{"4 connections tried to 10.96.0.1:443, 4 opened", "the pod: left eth0", "the node: came in by "},
			[]string{"BPF", "NET_ADMIN", "NET_RAW", "PERFMON", "SYS_ADMIN", "SYS_PTRACE"}},
		{"drops --trace " + far + ":99", 3, []string{"NO_SOCKET", "nothing listens at that port"},
			[]string{"BPF", "NET_ADMIN", "NET_RAW", "PERFMON", "SYS_PTRACE"}},
	} {
		seen := probePods(t)
		a := call(t, "shell", "--node", "node-a", "--via", "pod", "-c", c.line)
		if a.exit != c.exit {
			t.Errorf("%q: exit %d, want %d:\n%s%s", c.line, a.exit, c.exit, a.stdout, a.stderr)
		}
		for _, text := range c.says {
			if !strings.Contains(a.stdout+a.stderr, text) {
				t.Errorf("%q: no %q in\n%s%s", c.line, text, a.stdout, a.stderr)
			}
		}
		tracing := 0
		for _, p := range seen() {
			adds := []string{}
			for _, cap := range p.Spec.Containers[0].SecurityContext.Capabilities.Add {
				adds = append(adds, string(cap))
			}
			if slices.Contains(adds, "BPF") || slices.Contains(adds, "PERFMON") {
				tracing++
				if slices.Sort(adds); !slices.Equal(adds, c.adds) || p.Annotations["calico-probe.io/checks"] != "drops --trace" {
					t.Errorf("%q: a pod with %v for %q", c.line, adds, p.Annotations["calico-probe.io/checks"])
				}
			}
		}
		if want := min(1, len(c.adds)); tracing != want {
			t.Errorf("%q: %d pods that may load programs, want %d", c.line, tracing, want)
		}
	}
	nothingLeft(t)
}

// probePods notes the probes' pods that are made from now on, until it is asked which.
func probePods(t *testing.T) func() []corev1.Pod {
	t.Helper()
	w, err := kube(t).CoreV1().Pods("").Watch(t.Context(),
		metav1.ListOptions{LabelSelector: "app.kubernetes.io/managed-by=calico-probe"})
	if err != nil {
		t.Fatal(err)
	}
	made := map[string]corev1.Pod{}
	var reading sync.WaitGroup
	reading.Go(func() {
		for ev := range w.ResultChan() {
			if p, is := ev.Object.(*corev1.Pod); is {
				made[fmt.Sprint(p.UID)] = *p
			}
		}
	})
	return func() []corev1.Pod {
		w.Stop()
		reading.Wait()
		var out []corev1.Pod
		for _, p := range made {
			out = append(out, p)
		}
		return out
	}
}
