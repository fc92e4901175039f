package api

import (
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/calico-probe/calico-probe/internal/cluster"
	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/probe/facts"
)

// rejections returns results about pods that the kubelet recently rejected at admission, by reason, and about a full
// node.
func rejections(s *cluster.Snapshot) []probe.Result {
	by := map[string][]*corev1.Pod{}
	var reasons []string
	for i := range s.Placed.Pods.Value {
		p := &s.Placed.Pods.Value[i]
		if !isRejected(p) || s.Now.Sub(rejectedAt(p)) > cluster.Recent ||
			p.Labels[cluster.LabelOfProbes] == cluster.NameOfProbes {
			continue
		}
		if by[p.Status.Reason] == nil {
			reasons = append(reasons, p.Status.Reason)
		}
		by[p.Status.Reason] = append(by[p.Status.Reason], p)
	}
	slices.Sort(reasons)
	var out []probe.Result
	running, limit := roomOf(s)
	for _, reason := range reasons[:min(len(reasons), maxGroups)] {
		out = append(out, rejection(s, reason, by[reason], limit > 0 && running >= limit))
	}
	if limit > 0 && running >= limit {
		out = append(out, probe.Found(probe.Info, "the node is full: %d of %d pods, so the kubelet rejects new ones",
			running, limit).On("room").With(facts.Full, true))
	}
	return out
}

// isRejected reports whether a pod failed because the kubelet rejected it for lack of resources
// (pkg/kubelet/lifecycle).
func isRejected(p *corev1.Pod) bool {
	return p.Status.Phase == corev1.PodFailed && (strings.HasPrefix(p.Status.Reason, "OutOf") ||
		p.Status.Reason == "UnexpectedAdmissionError" || p.Status.Reason == "TopologyAffinityError")
}

// roomOf returns how many pods are on the node, and how many it may have, or 0 if unknown.
func roomOf(s *cluster.Snapshot) (running, limit int) {
	for i := range s.Placed.Pods.Value {
		if phase := s.Placed.Pods.Value[i].Status.Phase; phase != corev1.PodSucceeded && phase != corev1.PodFailed {
			running++
		}
	}
	return running, int(s.Node.Status.Allocatable.Pods().Value())
}

// roomNumbers matches the numbers in the kubelet's message.
var roomNumbers = regexp.MustCompile(`requested: (\d+), used: \d+, capacity: (\d+)`)

// rejection judges the pods that were rejected for one reason. A single rejection may be a race between the scheduler
// and the kubelet, so it is a warning. A pod that requests more than the node's total is only information. A pod that
// specifies its node bypasses the scheduler, so the pods of a single tenant are never a fault.
func rejection(s *cluster.Snapshot, reason string, pods []*corev1.Pod, full bool) probe.Result {
	latest := slices.MaxFunc(pods, func(a, b *corev1.Pod) int { return rejectedAt(a).Compare(rejectedAt(b)) })
	status := probe.Warn
	several := isCorroborated(s, pods, func(p *corev1.Pod) string { return p.Namespace })
	if several && (len(pods) > 1 && strings.HasPrefix(reason, "OutOf") || reason == "OutOfpods" && full) {
		status = probe.Fail
	}
	if m := roomNumbers.FindStringSubmatch(latest.Status.Message); m != nil {
		requested, _ := strconv.ParseInt(m[1], 10, 64)
		capacity, _ := strconv.ParseInt(m[2], 10, 64)
		if requested > capacity {
			status = probe.Info
		}
	}
	text := probe.Quoted(reason + ": " + latest.Status.Message)
	names := cluster.NameOf(latest)
	if len(pods) > 1 {
		names = "most recently " + names
	}
	age := s.Now.Sub(rejectedAt(latest))
	r := probe.Found(status, "the kubelet rejected %s (%s), %s ago: %s", cluster.Plural(len(pods), "pod"), names,
		probe.Age(max(0, age)), text)
	return r.On(facts.StartsRefused+" "+probe.OneLine(reason)).
		With(facts.Starts, facts.StartsRefused).With(facts.APIReason, reason).With(facts.Pods, len(pods)).
		With(facts.Message, text).With(facts.Pod, cluster.NameOf(latest)).With(facts.Age, int(age.Seconds()))
}

// rejectedAt is when the kubelet rejected a pod: as soon as it received the pod.
func rejectedAt(p *corev1.Pod) time.Time {
	if p.Status.StartTime != nil && p.Status.StartTime.After(p.CreationTimestamp.Time) {
		return p.Status.StartTime.Time
	}
	return p.CreationTimestamp.Time
}
