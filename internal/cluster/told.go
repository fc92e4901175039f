package cluster

import (
	"cmp"
	"context"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/probe/facts"
)

// told is what the kubelet's events say of a calico-node pod that is not ready.
type told struct {
	waits  *corev1.Event   // how far it has come, nil = nothing is said
	probes probe.Statement // why its liveness or readiness probe failed last, of the present not-ready period
	limit  string          // the limit of processes or files that one of these failures names, "" = none
	before probe.Statement // why it failed last before that period, where it has not failed since
	broken *brokenProbe    // a probe or hook that cannot succeed, nil = none
}

// startup is what tells why Calico's pods on the node do not start.
type startup struct {
	told
	others   map[types.UID]*brokenProbe // broken probes of pods of calico-kube-controllers
	kept     Read[[]corev1.Pod]         // pods without a node, where the node has a taint of startTaints
	unplaced Read[*corev1.Pod]          // the calico-node pod that is made for the node and not bound to it
}

// kubeletName is who reports what is quoted of the kubelet's events.
const kubeletName = "the kubelet"

// readStart reads what tells why calico-node does not start, where it has not. The error is that of the kubelet's
// events, the first where the events of several pods were not read.
func (c *Client) readStart(ctx context.Context, s *Snapshot) (out startup, err error) {
	if len(startTaints(s.Node)) > 0 || s.Node.Spec.Unschedulable {
		out.kept.read(ctx, c.readKept)
	}
	switch {
	case s.Calico.Err != nil:
	case s.Calico.Value == nil:
		// It is the one thing that tells a DaemonSet that made none from a scheduler that placed none.
		out.unplaced.read(ctx, func(ctx context.Context) (*corev1.Pod, error) { return c.readUnplaced(ctx, s.Node.Name) })
	case !podReady(s.Calico.Value):
		out.told, err = c.readTold(ctx, s.Calico.Value)
	case restartedLately(s.Calico.Value, s.Now):
		var lately told
		lately, err = c.readTold(ctx, s.Calico.Value)
		out.broken = lately.broken
	}
	for i := range s.controllers.Value {
		p := &s.controllers.Value[i]
		if p.Spec.NodeName != s.Node.Name || podReady(p) && !restartedLately(p, s.Now) {
			continue
		}
		of, unread := c.readTold(ctx, p)
		if err = cmp.Or(err, unread); of.broken != nil {
			if out.others == nil {
				out.others = map[types.UID]*brokenProbe{}
			}
			out.others[p.UID] = of.broken
		}
	}
	return out, err
}

// readTold reads the events of a pod.
func (c *Client) readTold(ctx context.Context, pod *corev1.Pod) (told, error) {
	events, err := c.eventsOf(ctx, pod)
	if err != nil {
		return told{}, err
	}
	out := told{waits: lastWord(events, pod.Spec.NodeName), broken: brokenIn(events, pod.Spec.NodeName)}
	for i := range events {
		e := &events[i]
		if e.Reason != "Unhealthy" || !fromKubelet(e, pod.Spec.NodeName) {
			continue
		}
		said, limit := statementOf(e), limitIn(e.Message)
		switch {
		case !said.Current(failsSince(pod, e.Message, limit)):
			if !said.At.Before(out.before.At) {
				out.before = said
			}
		case limit != "" && out.limit == "", (limit != "" || out.limit == "") && !said.At.Before(out.probes.At):
			out.limit, out.probes = limit, said
		}
	}
	return out, nil
}

// statementOf is what the kubelet reported by an event.
func statementOf(e *corev1.Event) probe.Statement {
	return probe.Statement{By: kubeletName, Text: probe.Quoted(e.Message[:min(len(e.Message), longestEvent)]),
		At: eventTime(e)}
}

// failsSince is when the period began that a failed probe of calico-node must be of to say why it is not ready. A
// readiness probe speaks of the processes it met, so an older container's does not count; a liveness probe, or a
// limit of the pod or node, is the reason that there is a new container.
func failsSince(pod *corev1.Pod, message, limit string) time.Time {
	since := conditionOfPod(pod, corev1.ContainersReady).Time
	_, status := calicoContainerOf(pod)
	if status == nil || status.State.Running == nil || limit != "" || !strings.HasPrefix(message, "Readiness probe ") {
		return since
	}
	return slices.MaxFunc([]time.Time{since, status.State.Running.StartedAt.Time}, time.Time.Compare)
}

// calicoHistory shows why a probe of calico-node failed before it was last ready, where it is not ready again and the
// kubelet has not yet reported why; or why its DaemonSet could make no pod some time ago, where there is none.
func (s *Snapshot) calicoHistory() []probe.Result {
	var out []probe.Result
	if s.Calico.Value == nil {
		for _, set := range s.sets.Value {
			if why := set.refused; why.Text != "" && !why.Current(s.Now.Add(-refusedFor)) {
				out = append(out, why.History(s.Now).On(set.Namespace+"/"+set.Name+" history"))
			}
		}
	} else if s.startup.Value.before.Text != "" && s.startup.Value.probes.Text == "" {
		out = append(out, s.startup.Value.before.History(s.Now).On(nameOf(s.Calico.Value)+" history"))
	}
	if err := s.startup.Err; err != nil {
		out = append(out, skipDenied(fmt.Errorf("reading the kubelet's events: %w", err)).On("kubelet's events"))
	}
	return out
}

// limits are the kernel's words for a limit that is reached: EAGAIN of fork and clone, EMFILE and ENFILE.
var limits = []struct {
	find *regexp.Regexp
	what string
}{
	{regexp.MustCompile(`(?:fork|exec|clone|pthread_create|thread).*[Rr]esource temporarily unavailable|` +
		`failed to create new OS thread|can't fork|Cannot fork|pids? limit`), facts.LimitProcesses},
	{regexp.MustCompile(`[Tt]oo many open files`), facts.LimitFiles},
	{regexp.MustCompile(`[Cc]annot allocate memory`), facts.LimitMemory},
}

func limitIn(text string) string {
	text = text[:min(len(text), longestEvent)]
	for _, l := range limits {
		if l.find.MatchString(text) {
			return l.what
		}
	}
	return ""
}

// begun tells whether a container of a pod has ever run.
func begun(p *corev1.Pod) bool {
	return slices.ContainsFunc(slices.Concat(p.Status.InitContainerStatuses, p.Status.ContainerStatuses),
		func(c corev1.ContainerStatus) bool {
			return c.State.Running != nil || c.State.Terminated != nil || c.LastTerminationState.Terminated != nil
		})
}

// kubeletSays adds to a bad result about calico-node's pod what the kubelet says of it: what keeps it from
// starting, where nothing of it has run, or why its probe fails.
func (s *Snapshot) kubeletSays(r probe.Result) probe.Result {
	if r.Status != probe.Fail && r.Status != probe.Warn || r.Facts[facts.NotStarted] == true {
		return r
	}
	if e := s.startup.Value.waits; e != nil && !begun(s.Calico.Value) {
		starts := map[string]string{
			eventMount: facts.StartsVolume, eventAttach: facts.StartsVolume, eventMap: facts.StartsVolume,
			eventSandbox: facts.StartsSandbox, eventCgroup: facts.StartsSandbox, eventNetwork: facts.StartsNetwork,
		}[e.Reason]
		if starts != "" {
			said := statementOf(e)
			said.Text = probe.Quoted(general(waiter{pod: s.Calico.Value}, e.Message))
			r.Saw += "; the kubelet reported: " + said.Aged(s.Now)
			return r.With(facts.Starts, starts).With(facts.Message, said.Text)
		}
	}
	if said := s.startup.Value.probes; said.Text != "" && r.Facts[facts.BrokenProbe] == nil {
		r.Saw += "; the kubelet reported: " + said.Aged(s.Now)
		r = r.With(facts.ProbeSays, said.Text)
	}
	if s.startup.Value.limit != "" {
		r = r.With(facts.Limit, s.startup.Value.limit)
	}
	return r
}
