package cluster

import (
	"cmp"
	"context"
	"regexp"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/probe/facts"
)

// KubeletEvents holds the kubelet's events about a calico-node pod that is not ready.
type KubeletEvents struct {
	Waits  *corev1.Event   // the pod's progress; nil = no event
	Probes probe.Statement // its last failed liveness or readiness probe since it became not ready
	Limit  string          // the process or file limit that one of these failures reports; "" = none
	Before probe.Statement // its last failed probe before it became not ready, if no probe has failed since
	Broken *BrokenProbe    // a probe or hook that cannot succeed; nil = none
}

// startup explains why Calico's pods on the node do not start.
type startup struct {
	KubeletEvents
	Others   map[types.UID]*BrokenProbe // broken probes of pods of calico-kube-controllers
	Kept     Read[[]corev1.Pod]         // unscheduled pods, if the node has a taint of StartTaints
	Unplaced Read[*corev1.Pod]          // the calico-node pod that was created for the node but is not bound to it
}

// KubeletName is the reporter in quoted kubelet events.
const KubeletName = "the kubelet"

// If calico-node has not started, ReadStart reads why. The error is the first error from reading the kubelet's events.
func (c *Client) ReadStart(ctx context.Context, s *Snapshot) (out startup, err error) {
	if len(StartTaints(s.Node)) > 0 || s.Node.Spec.Unschedulable {
		out.Kept.read(ctx, c.readKept)
	}
	switch {
	case s.Calico.Err != nil:
	case s.Calico.Value == nil:
		// Only this distinguishes a DaemonSet that did not create a pod from a scheduler that did not place the pod.
		out.Unplaced.read(ctx, func(ctx context.Context) (*corev1.Pod, error) { return c.readUnplaced(ctx, s.Node.Name) })
	case !PodReady(s.Calico.Value):
		out.KubeletEvents, err = c.ReadKubeletEvents(ctx, s.Calico.Value)
	case restartedLately(s.Calico.Value, s.Now):
		var lately KubeletEvents
		lately, err = c.ReadKubeletEvents(ctx, s.Calico.Value)
		out.Broken = lately.Broken
	}
	for i := range s.Controllers.Value {
		p := &s.Controllers.Value[i]
		if p.Spec.NodeName != s.Node.Name || PodReady(p) && !restartedLately(p, s.Now) {
			continue
		}
		of, unread := c.ReadKubeletEvents(ctx, p)
		if err = cmp.Or(err, unread); of.Broken != nil {
			if out.Others == nil {
				out.Others = map[types.UID]*BrokenProbe{}
			}
			out.Others[p.UID] = of.Broken
		}
	}
	return out, err
}

// ReadKubeletEvents reads the events of a pod.
func (c *Client) ReadKubeletEvents(ctx context.Context, pod *corev1.Pod) (KubeletEvents, error) {
	events, err := c.eventsOf(ctx, pod)
	if err != nil {
		return KubeletEvents{}, err
	}
	out := KubeletEvents{Waits: lastWord(events, pod.Spec.NodeName), Broken: BrokenIn(events, pod.Spec.NodeName)}
	for i := range events {
		e := &events[i]
		if e.Reason != "Unhealthy" || !fromKubelet(e, pod.Spec.NodeName) {
			continue
		}
		said, limit := StatementOf(e), LimitIn(e.Message)
		switch {
		case !said.Current(failsSince(pod, e.Message, limit)):
			if !said.At.Before(out.Before.At) {
				out.Before = said
			}
		case limit != "" && out.Limit == "", (limit != "" || out.Limit == "") && !said.At.Before(out.Probes.At):
			out.Limit, out.Probes = limit, said
		}
	}
	return out, nil
}

// StatementOf returns the kubelet's report in an event.
func StatementOf(e *corev1.Event) probe.Statement {
	return probe.Statement{By: KubeletName, Text: probe.Quoted(e.Message[:min(len(e.Message), LongestEvent)]),
		At: eventTime(e)}
}

// failsSince returns the time since which a failed probe explains why calico-node is not ready. A readiness probe tests
// the running container, so an older container's failure does not count. A failed liveness probe, or a limit on the pod
// or node, is the reason why the container is new.
func failsSince(pod *corev1.Pod, message, limit string) time.Time {
	since := ConditionOfPod(pod, corev1.ContainersReady).Time
	_, status := CalicoContainerOf(pod)
	if status == nil || status.State.Running == nil || limit != "" || !strings.HasPrefix(message, "Readiness probe ") {
		return since
	}
	return slices.MaxFunc([]time.Time{since, status.State.Running.StartedAt.Time}, time.Time.Compare)
}

// limits match the kernel's messages about a limit: EAGAIN from fork and clone, EMFILE and ENFILE.
var limits = []struct {
	find *regexp.Regexp
	what string
}{
	{regexp.MustCompile(`(?:fork|exec|clone|pthread_create|thread).*[Rr]esource temporarily unavailable|` +
		`failed to create new OS thread|can't fork|Cannot fork|pids? limit`), facts.LimitProcesses},
	{regexp.MustCompile(`[Tt]oo many open files`), facts.LimitFiles},
	{regexp.MustCompile(`[Cc]annot allocate memory`), facts.LimitMemory},
}

// LimitIn returns the node limit that was reached according to a message: one of the facts.Limit words, or "" if there
// is none.
func LimitIn(text string) string {
	text = text[:min(len(text), LongestEvent)]
	for _, l := range limits {
		if l.find.MatchString(text) {
			return l.what
		}
	}
	return ""
}

// Begun reports whether a container of a pod has ever run.
func Begun(p *corev1.Pod) bool {
	return slices.ContainsFunc(slices.Concat(p.Status.InitContainerStatuses, p.Status.ContainerStatuses),
		func(c corev1.ContainerStatus) bool {
			return c.State.Running != nil || c.State.Terminated != nil || c.LastTerminationState.Terminated != nil
		})
}
