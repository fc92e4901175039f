package api

import (
	"fmt"
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

// refusals are the results about pods that the kubelet recently rejected at admission, by reason, and about a node
// that is full.
func refusals(s *cluster.Snapshot) []probe.Result {
	by := map[string][]*corev1.Pod{}
	var reasons []string
	for i := range s.Placed.Pods.Value {
		p := &s.Placed.Pods.Value[i]
		if !refused(p) || s.Now.Sub(rejectedAt(p)) > cluster.Recent ||
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
	for _, reason := range reasons[:min(len(reasons), groupsMost)] {
		out = append(out, refusalOf(s, reason, by[reason], limit > 0 && running >= limit))
	}
	if limit > 0 && running >= limit {
		out = append(out, probe.Found(probe.Info, "the node is full: %d of %d pods, so the kubelet rejects new ones",
			running, limit).On("room").With(facts.Full, true))
	}
	return out
}

// refused reports whether a pod failed because the kubelet rejected it for lack of resources (pkg/kubelet/lifecycle).
func refused(p *corev1.Pod) bool {
	return p.Status.Phase == corev1.PodFailed && (strings.HasPrefix(p.Status.Reason, "OutOf") ||
		p.Status.Reason == "UnexpectedAdmissionError" || p.Status.Reason == "TopologyAffinityError")
}

// roomOf counts the pods on the node, and how many it may have, 0 = unknown.
func roomOf(s *cluster.Snapshot) (running, limit int) {
	for i := range s.Placed.Pods.Value {
		if phase := s.Placed.Pods.Value[i].Status.Phase; phase != corev1.PodSucceeded && phase != corev1.PodFailed {
			running++
		}
	}
	return running, int(s.Node.Status.Allocatable.Pods().Value())
}

// roomSays matches the numbers in the kubelet's message.
var roomSays = regexp.MustCompile(`requested: (\d+), used: \d+, capacity: (\d+)`)

// refusalOf judges the pods that were rejected for one reason. A single one may be a race between the scheduler and
// the kubelet. A pod that requests more than the node has is a case of its own. A pod that names its node bypasses the
// scheduler, so the pods of one tenant are no fault of the node.
func refusalOf(s *cluster.Snapshot, reason string, pods []*corev1.Pod, full bool) probe.Result {
	latest := slices.MaxFunc(pods, func(a, b *corev1.Pod) int { return rejectedAt(a).Compare(rejectedAt(b)) })
	status := probe.Warn
	several := corroborated(s, pods, func(p *corev1.Pod) string { return p.Namespace })
	if several && (len(pods) > 1 && strings.HasPrefix(reason, "OutOf") || reason == "OutOfpods" && full) {
		status = probe.Fail
	}
	if m := roomSays.FindStringSubmatch(latest.Status.Message); m != nil {
		asked, _ := strconv.ParseInt(m[1], 10, 64)
		there, _ := strconv.ParseInt(m[2], 10, 64)
		if asked > there {
			status = probe.Info
		}
	}
	says := probe.Quoted(reason + ": " + latest.Status.Message)
	names := cluster.NameOf(latest)
	if len(pods) > 1 {
		names = "most recently " + names
	}
	age := s.Now.Sub(rejectedAt(latest))
	r := probe.Found(status, "the kubelet rejected %s (%s), %s ago: %s", cluster.Plural(len(pods), "pod"), names,
		probe.Age(max(0, age)), says)
	return r.On(facts.StartsRefused+" "+probe.OneLine(reason)).
		With(facts.Starts, facts.StartsRefused).With(facts.APIReason, reason).With(facts.Pods, len(pods)).
		With(facts.Message, says).With(facts.Pod, cluster.NameOf(latest)).With(facts.Age, int(age.Seconds()))
}

// rejectedAt is when the kubelet rejected a pod, which it does as soon as it receives it.
func rejectedAt(p *corev1.Pod) time.Time {
	if p.Status.StartTime != nil && p.Status.StartTime.After(p.CreationTimestamp.Time) {
		return p.Status.StartTime.Time
	}
	return p.CreationTimestamp.Time
}
