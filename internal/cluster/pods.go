package cluster

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/probe/facts"
)

// eventsAsked is of how many pods the events are read: those that wait longest.
const eventsAsked = 12

// placement is the pods that are bound to the node, and what is said of those that do not start. The errors of waiters
// say why events of some could not be read.
type placement struct {
	pods    Read[[]corev1.Pod]
	waiting Read[[]waiter] // those that do not start, the longest waiting first
	ending  Read[[]waiter] // pods that are overdue to end, the longest overdue first
}

// A waiter is a pod of the node that does not start.
type waiter struct {
	pod    *corev1.Pod
	reason string        // the kubelet's word for what a container waits for, "" = none yet
	says   string        // its words for it
	since  time.Time     // when the pod was bound to the node, or was last up
	unmade bool          // the runtime could not make or start that container
	image  string        // that it is made of
	last   *corev1.Event // the last event of this wait that matters, nil = none, or not read
	pull   *corev1.Event // the last of it that says why an image is not there, nil = none, or not read
	before *corev1.Event // the last that matters from before this wait, nil = none, or not read
}

// readPlaced lists the pods that are bound to the node, ended ones too: IPAM may keep their addresses.
func (c *Client) readPlaced(ctx context.Context, node string) (p placement) {
	p.pods.read(ctx, func(ctx context.Context) ([]corev1.Pod, error) {
		pods, err := c.podsOn(ctx, node, "")
		for i := range pods {
			if w, ok := waits(&pods[i]); ok {
				p.waiting.Value = append(p.waiting.Value, w)
			}
		}
		slices.SortStableFunc(p.waiting.Value, func(a, b waiter) int { return a.since.Compare(b.since) })
		p.ending.Value = endings(pods)
		return pods, err
	})
	return p
}

// running are the pods of the node that run.
func (p *placement) running() []corev1.Pod {
	return slices.DeleteFunc(slices.Clone(p.pods.Value),
		func(p corev1.Pod) bool { return p.Status.Phase != corev1.PodRunning })
}

// readWaits starts reading what the kubelet says of the pods that wait longest, and of those that are due longest.
func (c *Client) readWaits(ctx context.Context, p *placement, all *probe.Workers) {
	c.readEventsOf(ctx, &p.waiting, eventsAsked, all, func(w *waiter, events []corev1.Event) {
		now, before := apart(events, w.began())
		w.last, w.pull = lastWord(now, w.pod.Spec.NodeName), pullWord(now, w.pod.Spec.NodeName)
		w.before = lastWord(before, w.pod.Spec.NodeName)
	})
	c.readEventsOf(ctx, &p.ending, endsAsked, all, func(w *waiter, events []corev1.Event) {
		now, _ := apart(events, w.began())
		w.last = killWord(now, w.pod.Spec.NodeName)
	})
}

// readEventsOf starts reading events of the first of these pods, and passes those of each to take.
func (c *Client) readEventsOf(ctx context.Context, pods *Read[[]waiter], first int, all *probe.Workers,
	take func(*waiter, []corev1.Event),
) {
	pods.start(ctx, all, func(ctx context.Context) ([]waiter, error) {
		asked := pods.Value[:min(len(pods.Value), first)]
		events, err := whole(forEach(asked, func(w waiter) ([]corev1.Event, error) { return c.eventsOf(ctx, w.pod) }))
		for i := range asked {
			take(&asked[i], events[i])
		}
		if err != nil {
			err = fmt.Errorf("listing events: %w", err)
		}
		return pods.Value, err
	})
}

// began is when a pod's wait began: with the pod, or when it was last up; of one that is being deleted, when that was
// requested.
func (w waiter) began() time.Time {
	switch p := w.pod; {
	case p.DeletionTimestamp != nil && p.DeletionGracePeriodSeconds != nil:
		return p.DeletionTimestamp.Add(-time.Duration(*p.DeletionGracePeriodSeconds) * time.Second)
	case p.DeletionTimestamp == nil && begun(p):
		return w.since
	default:
		return p.CreationTimestamp.Time
	}
}

// apart are the events of a period that began then, and those from before it.
func apart(events []corev1.Event, since time.Time) (now, before []corev1.Event) {
	for _, e := range events {
		if statementOf(&e).Current(since) {
			now = append(now, e)
		} else {
			before = append(before, e)
		}
	}
	return now, before
}

// aged is the end of a quote of what was last reported of some pods: how long ago, "" where that has no time.
func aged(pods []waiter, now time.Time) string {
	var last probe.Statement
	for _, w := range pods {
		if at := w.saidAt(); !at.Before(last.At) {
			last.At = at
		}
	}
	return last.Aged(now)
}

// saidAt is the time of the event that says why a pod waits, zero where its container's state does.
func (w waiter) saidAt() time.Time {
	switch {
	case probe.ImageWanting(w.reason) && w.pull != nil && facts.PullFailed(general(w, w.says)) == "":
		return eventTime(w.pull)
	case w.last != nil && !w.unmade && slices.Contains([]string{"", "ContainerCreating", "PodInitializing"}, w.reason):
		return eventTime(w.last)
	}
	return time.Time{}
}

// podsHistory are the results about pods of which the kubelet reported something only before their present wait.
func (s *Snapshot) podsHistory() []probe.Result {
	var out []probe.Result
	for _, w := range s.placed.waiting.Value[:min(len(s.placed.waiting.Value), eventsAsked)] {
		if w.last == nil && w.before != nil && s.Now.Sub(w.since) >= settled {
			said := statementOf(w.before)
			said.Text = probe.Quoted(general(w, w.before.Message))
			out = append(out, said.History(s.Now).On(nameOf(w.pod)+" history"))
		}
	}
	return out
}

// lastWord is the last event that says how far a pod has come. Others repeat it ("BackOff"), or
// are about its past. Who may create events can write any, so those that do not even claim to be of the
// node's kubelet are passed over, and none is proof by itself.
func lastWord(events []corev1.Event, node string) *corev1.Event {
	var last *corev1.Event
	for i := range events {
		if !fromKubelet(&events[i], node) {
			continue
		}
		switch events[i].Reason {
		case eventSandbox, eventCgroup, eventNetwork, eventMount, eventAttach, eventMap, eventPulling, "Pulled", "Created",
			"Started":
			if last == nil || !eventTime(&events[i]).Before(eventTime(last)) {
				last = &events[i]
			}
		}
	}
	return last
}

// fromKubelet tells whether an event names the node's kubelet as its source, or for a volume the controller
// that attaches them.
func fromKubelet(e *corev1.Event, node string) bool {
	by, at := cmp.Or(e.Source.Component, e.ReportingController), cmp.Or(e.Source.Host, e.ReportingInstance)
	if e.Reason == eventAttach && by == "attachdetach-controller" {
		return true
	}
	return by == "kubelet" && (at == "" || at == node)
}

// Reasons of the kubelet's events.
const (
	eventSandbox = facts.EventSandbox
	eventCgroup  = "FailedCreatePodContainer" // of the pod's cgroup, before its sandbox
	eventNetwork = "NetworkNotReady"
	eventMount   = "FailedMount"
	eventAttach  = "FailedAttachVolume"
	eventMap     = "FailedMapVolume"
	eventPulling = "Pulling"
)

// waits tells whether a pod does not start, and what the kubelet says its containers wait for. One
// that has ended or shall end is none, nor one whose init containers are at work.
func waits(p *corev1.Pod) (waiter, bool) {
	ended := p.Status.Phase == corev1.PodSucceeded || p.Status.Phase == corev1.PodFailed
	if ended || p.DeletionTimestamp != nil || p.Labels[labelOfProbes] == nameOfProbes {
		return waiter{}, false
	}
	w := waiter{pod: p, since: conditionOfPod(p, corev1.PodScheduled).Time}
	for _, t := range []time.Time{p.CreationTimestamp.Time, conditionOfPod(p, corev1.ContainersReady).Time} {
		if t.After(w.since) { // the latter: when it was last up, of a pod whose node has come back
			w.since = t
		}
	}
	begun := func(c corev1.ContainerStatus) bool {
		ended := c.State.Terminated
		return c.State.Running != nil && !restartable(p, c.Name) || ended != nil && ended.ExitCode == 0
	}
	if slices.ContainsFunc(p.Status.InitContainerStatuses, begun) &&
		!slices.ContainsFunc(p.Status.ContainerStatuses, wanting) {
		return waiter{}, false
	}
	states := slices.Concat(p.Status.InitContainerStatuses, p.Status.ContainerStatuses)
	i := slices.IndexFunc(states, wanting)
	if i < 0 {
		i = slices.IndexFunc(states, func(c corev1.ContainerStatus) bool { return c.State.Waiting != nil })
	}
	if i >= 0 {
		w.reason, w.says = states[i].State.Waiting.Reason, states[i].State.Waiting.Message
		w.image = imageOf(p, states[i])
		if says, unmade := runtimeSays(states[i]); unmade {
			w.says, w.unmade = says, true
		}
		return w, true
	}
	return w, len(states) == 0
}

// runtimeSays is what the runtime says of a container that it could not make or start: of this attempt, or of
// the last one while the kubelet waits before the next.
func runtimeSays(c corev1.ContainerStatus) (string, bool) {
	switch c.State.Waiting.Reason {
	case "CreateContainerError", "RunContainerError":
		return c.State.Waiting.Message, true
	}
	t := c.LastTerminationState.Terminated
	if t == nil || t.Reason != "StartError" && t.Reason != "ContainerCannotRun" {
		return "", false
	}
	return t.Message, true
}

// wanting tells whether a container waits for something of its own, and not for others.
func wanting(c corev1.ContainerStatus) bool {
	return c.State.Waiting != nil && c.State.Waiting.Reason != "PodInitializing"
}

// What the injector labels probes with. A probe that does not start is another check's.
const (
	labelOfProbes = "app.kubernetes.io/managed-by"
	nameOfProbes  = "calico-probe"
)

// nameOf is a pod as NAMESPACE/NAME.
func nameOf(p *corev1.Pod) string { return probe.OneLine(p.Namespace + "/" + p.Name) }
