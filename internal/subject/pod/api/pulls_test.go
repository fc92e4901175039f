package api

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/calico-probe/calico-probe/internal/cluster"
	"github.com/calico-probe/calico-probe/internal/cluster/clustertest"
	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/probe/facts"
)

// TestPulls distinguishes a registry that refuses pulls, a problem of one image, and a broken image store of the node.
func TestPulls(t *testing.T) {
	const (
		head    = `failed to pull and unpack image "x": failed to resolve image: failed to do request: Head "https://x/v2/": `
		unknown = `dial tcp: lookup x: no such host`
		limited = `Back-off pulling image "x": ErrImagePull: failed to copy: httpReadSeeker: failed open: unexpected status code https://registry-1.docker.io/v2/x: 429 Too Many Requests - Server message: toomanyrequests: You have reached your pull rate limit.`
		denied  = `failed to pull and unpack image "x": failed to resolve image: pull access denied, repository does not exist or may require authorization: server message: insufficient_scope: authorization failed`
		blob    = `failed to pull and unpack image "x": failed to extract layer sha256:1: failed to get reader from content store: content digest sha256:2: not found`
	)
	pull := func(namespace, image, says string) corev1.Pod {
		p := clustertest.Hanging(namespace+"-pod", time.Hour, "ImagePullBackOff", says)
		p.Namespace, p.Spec.Containers[0].Image = namespace, image
		return p
	}
	for name, c := range map[string]struct {
		pods    []corev1.Pod
		event   string // of the kubelet, about the first pod
		status  probe.Status
		starts  string
		refusal string
	}{
		"a registry that does not exist": {[]corev1.Pod{pull("default", "hub.exampel/app:1", head+unknown)}, "",
			probe.Info, facts.StartsImage, facts.RefusedUnresolved},
		"the same of two tenants": {[]corev1.Pod{pull("a", "hub.example/app:1", head+unknown),
			pull("b", "quay.io/b:1", head+unknown)}, "",
			probe.Fail, facts.StartsImage, facts.RefusedUnresolved},
		"one of the cluster's own": {[]corev1.Pod{pull("kube-system", "hub.example/app:1", head+unknown)}, "",
			probe.Warn, facts.StartsImage, facts.RefusedUnresolved},
		"a limit": {[]corev1.Pod{pull("default", "busybox", limited)}, "", probe.Warn, facts.StartsImage,
			facts.RefusedLimited},
		"plain": {[]corev1.Pod{pull("default", "hub.example/app:1", head+"http: server gave HTTP response to HTTPS client")}, "",
			probe.Warn, facts.StartsImage, facts.RefusedPlain},
		"a forbidden image": {[]corev1.Pod{pull("default", "team/app:1", denied)}, "", probe.Info,
			facts.StartsImage, facts.RefusedUnauthorized},
		"two forbidden images": {[]corev1.Pod{pull("a", "hub.example/a:1", denied),
			pull("b", "hub.example/b:1", denied)}, "",
			probe.Fail, facts.StartsImage, facts.RefusedUnauthorized},
		"a missing image": {[]corev1.Pod{pull("kube-system", "team/app:1", `failed to resolve image: docker.io/team/app:1: not found`)}, "",
			probe.Info, facts.StartsOwn, ""},
		"an older kubelet": {[]corev1.Pod{pull("default", "busybox", `Back-off pulling image "busybox"`)},
			`Failed to pull image "busybox": rpc error: code = Unknown desc = ` + limited, probe.Warn, facts.StartsImage,
			facts.RefusedLimited},
		"the store": {[]corev1.Pod{pull("default", "busybox", blob)}, "", probe.Fail, facts.StartsContainer, ""},
	} {
		t.Run(name, func(t *testing.T) {
			s := clustertest.PlacedOn("", "", c.pods...)
			if c.event != "" {
				s.Placed.Waiting.Value[0].Pull = cluster.PullWord([]corev1.Event{
					{Reason: "Failed", Message: "Error: ErrImagePull", Source: corev1.EventSource{Component: "kubelet"}},
					{Reason: "Failed", Message: c.event, Source: corev1.EventSource{Component: "kubelet"}},
					{Reason: "Failed", Message: `Failed to pull image "busybox": x`, Source: corev1.EventSource{Component: "me"}},
				}, "node-a")
			}
			got := ask(t, s, facts.CheckPodsStart)
			clustertest.WantFirst(t, got, c.status, "")
			if r := got[0]; len(got) != 1 || r.Facts.Str(facts.Starts) != c.starts || r.Facts.Str(facts.Refusal) != c.refusal {
				t.Errorf("%v", got)
			}
		})
	}
}

// TestUncreated distinguishes a failing runtime from a container without its program, also during the kubelet's
// back-off.
func TestUncreated(t *testing.T) {
	const began = "failed to create containerd task: failed to create shim task: OCI runtime create failed: "
	for says, want := range map[string]struct{ starts, obstacle string }{
		began + `unable to retrieve OCI runtime error (open /x/log.json: no such file or directory): exec: "runc": executable file not found in $PATH`: {
			facts.StartsContainer, facts.ObstacleOCI},
		began + `runc create failed: unable to start container process: exec: "app": executable file not found in $PATH`: {facts.StartsOwn, ""},
	} {
		p := clustertest.Hanging("a", time.Hour, "CrashLoopBackOff", "back-off 5m0s restarting failed container=c")
		p.Status.ContainerStatuses[0].LastTerminationState.Terminated = &corev1.ContainerStateTerminated{
			Reason: "StartError", Message: says}
		for _, reason := range []string{"CrashLoopBackOff", "RunContainerError"} {
			p.Status.ContainerStatuses[0].State.Waiting = &corev1.ContainerStateWaiting{Reason: reason, Message: says}
			got := ask(t, clustertest.PlacedOn("", "", p), facts.CheckPodsStart)
			if f := got[0].Facts; len(got) != 1 || f.Str(facts.Starts) != want.starts || f.Str(facts.Obstacle) != want.obstacle {
				t.Errorf("%s: %v", reason, got)
			}
		}
	}
}
