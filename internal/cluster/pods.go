package cluster

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/probe/facts"
)

// MaxPodsWithEvents is the maximum number of pods whose events are read, the longest waiting first.
const MaxPodsWithEvents = 12

// placement holds the pods that are bound to the node, and the reasons why some do not start. An error in a list of
// Waiters reports which events could not be read.
type placement struct {
	Pods    Read[[]corev1.Pod]
	Waiting Read[[]Waiter] // pods that do not start, the longest waiting first
	Ending  Read[[]Waiter] // pods stuck terminating, the longest overdue first
}

// A Waiter is a pod of the node that does not start.
type Waiter struct {
	Pod    *corev1.Pod
	Reason string        // the kubelet's reason why a container waits; "" = none yet
	Says   string        // the kubelet's message about the reason
	Since  time.Time     // when the pod was bound to the node, or last ran
	Unmade bool          // the runtime could not create or start the container
	Image  string        // the container's image
	Last   *corev1.Event // the last relevant event during this wait; nil = none, or not read
	Pull   *corev1.Event // the last event about a failed image pull during this wait; nil = none, or not read
	Before *corev1.Event // the last relevant event before this wait; nil = none, or not read
}

// readPlaced lists the pods that are bound to the node, including exited pods: IPAM may keep their addresses.
func (c *Client) readPlaced(ctx context.Context, node string) (p placement) {
	p.Pods.read(ctx, func(ctx context.Context) ([]corev1.Pod, error) {
		pods, err := c.podsOn(ctx, node, "")
		for i := range pods {
			if w, ok := Waits(&pods[i]); ok {
				p.Waiting.Value = append(p.Waiting.Value, w)
			}
		}
		slices.SortStableFunc(p.Waiting.Value, func(a, b Waiter) int { return a.Since.Compare(b.Since) })
		p.Ending.Value = Endings(pods)
		return pods, err
	})
	return p
}

// Running returns the running pods of the node.
func (p *placement) Running() []corev1.Pod {
	return slices.DeleteFunc(slices.Clone(p.Pods.Value),
		func(p corev1.Pod) bool { return p.Status.Phase != corev1.PodRunning })
}

// ReadWaits starts reading the kubelet's events about the longest waiting pods, and about the longest overdue
// terminating pods.
func (c *Client) ReadWaits(ctx context.Context, p *placement, all *probe.Workers) {
	c.readEventsOf(ctx, &p.Waiting, MaxPodsWithEvents, all, func(w *Waiter, events []corev1.Event) {
		now, before := apart(events, w.began())
		w.Last, w.Pull = lastWord(now, w.Pod.Spec.NodeName), PullWord(now, w.Pod.Spec.NodeName)
		w.Before = lastWord(before, w.Pod.Spec.NodeName)
	})
	c.readEventsOf(ctx, &p.Ending, endsAsked, all, func(w *Waiter, events []corev1.Event) {
		now, _ := apart(events, w.began())
		w.Last = KillWord(now, w.Pod.Spec.NodeName)
	})
}

// readEventsOf starts reading the events of the first few pods, and passes each pod's events to take.
func (c *Client) readEventsOf(ctx context.Context, pods *Read[[]Waiter], first int, all *probe.Workers,
	take func(*Waiter, []corev1.Event),
) {
	pods.start(ctx, all, func(ctx context.Context) ([]Waiter, error) {
		firstPods := pods.Value[:min(len(pods.Value), first)]
		events, err := whole(forEach(firstPods, func(w Waiter) ([]corev1.Event, error) { return c.eventsOf(ctx, w.Pod) }))
		for i := range firstPods {
			take(&firstPods[i], events[i])
		}
		if err != nil {
			err = fmt.Errorf("listing events: %w", err)
		}
		return pods.Value, err
	})
}

// began returns the start of a pod's wait: its creation, the last time that it ran, or for a terminating pod the
// deletion request.
func (w Waiter) began() time.Time {
	switch p := w.Pod; {
	case p.DeletionTimestamp != nil && p.DeletionGracePeriodSeconds != nil:
		return p.DeletionTimestamp.Add(-time.Duration(*p.DeletionGracePeriodSeconds) * time.Second)
	case p.DeletionTimestamp == nil && Begun(p):
		return w.Since
	default:
		return p.CreationTimestamp.Time
	}
}

// apart splits events into those since the start of a period and earlier events.
func apart(events []corev1.Event, since time.Time) (now, before []corev1.Event) {
	for _, e := range events {
		if StatementOf(&e).Current(since) {
			now = append(now, e)
		} else {
			before = append(before, e)
		}
	}
	return now, before
}

// ReportedAt returns the time of the event that explains a pod's wait, or zero if the container's state explains it.
func (w Waiter) ReportedAt() time.Time {
	switch {
	case probe.ImageWanting(w.Reason) && w.Pull != nil && facts.PullFailed(GeneralText(w, w.Says)) == "":
		return eventTime(w.Pull)
	case w.Last != nil && !w.Unmade && slices.Contains([]string{"", "ContainerCreating", "PodInitializing"}, w.Reason):
		return eventTime(w.Last)
	}
	return time.Time{}
}

// lastWord returns the last event that shows a pod's progress. Other events repeat it ("BackOff"), or describe the
// past. It skips events whose source is not the node's kubelet. Any user with permission to create events can forge
// this source, so an event alone proves nothing.
func lastWord(events []corev1.Event, node string) *corev1.Event {
	var last *corev1.Event
	for i := range events {
		if !fromKubelet(&events[i], node) {
			continue
		}
		switch events[i].Reason {
		case EventSandbox, EventCgroup, EventNetwork, EventMount, EventAttach, EventMap, EventPulling, "Pulled", "Created",
			"Started":
			if last == nil || !eventTime(&events[i]).Before(eventTime(last)) {
				last = &events[i]
			}
		}
	}
	return last
}

// fromKubelet reports whether an event's source is the node's kubelet or, for a volume, the controller that attaches
// the volume.
func fromKubelet(e *corev1.Event, node string) bool {
	by, at := cmp.Or(e.Source.Component, e.ReportingController), cmp.Or(e.Source.Host, e.ReportingInstance)
	if e.Reason == EventAttach && by == "attachdetach-controller" {
		return true
	}
	return by == "kubelet" && (at == "" || at == node)
}

// Reasons of the kubelet's events.
const (
	EventSandbox = facts.EventSandbox
	EventCgroup  = "FailedCreatePodContainer" // the pod's cgroup failed, before its sandbox was created
	EventNetwork = "NetworkNotReady"
	EventMount   = "FailedMount"
	EventAttach  = "FailedAttachVolume"
	EventMap     = "FailedMapVolume"
	EventPulling = "Pulling"
)

// Waits reports whether a pod does not start, with the kubelet's reason. It ignores exited and terminating pods, and
// pods with a running init container.
func Waits(p *corev1.Pod) (Waiter, bool) {
	ended := p.Status.Phase == corev1.PodSucceeded || p.Status.Phase == corev1.PodFailed
	if ended || p.DeletionTimestamp != nil || p.Labels[LabelOfProbes] == NameOfProbes {
		return Waiter{}, false
	}
	w := Waiter{Pod: p, Since: ConditionOfPod(p, corev1.PodScheduled).Time}
	for _, t := range []time.Time{p.CreationTimestamp.Time, ConditionOfPod(p, corev1.ContainersReady).Time} {
		if t.After(w.Since) { // for a pod on a node that came back: when the pod last ran
			w.Since = t
		}
	}
	begun := func(c corev1.ContainerStatus) bool {
		ended := c.State.Terminated
		return c.State.Running != nil && !Restartable(p, c.Name) || ended != nil && ended.ExitCode == 0
	}
	if slices.ContainsFunc(p.Status.InitContainerStatuses, begun) &&
		!slices.ContainsFunc(p.Status.ContainerStatuses, wanting) {
		return Waiter{}, false
	}
	states := slices.Concat(p.Status.InitContainerStatuses, p.Status.ContainerStatuses)
	i := slices.IndexFunc(states, wanting)
	if i < 0 {
		i = slices.IndexFunc(states, func(c corev1.ContainerStatus) bool { return c.State.Waiting != nil })
	}
	if i >= 0 {
		w.Reason, w.Says = states[i].State.Waiting.Reason, states[i].State.Waiting.Message
		w.Image = imageOf(p, states[i])
		if says, unmade := runtimeSays(states[i]); unmade {
			w.Says, w.Unmade = says, true
		}
		return w, true
	}
	return w, len(states) == 0
}

// runtimeSays returns the runtime's error about a container that it could not create or start. The error is from this
// attempt or, during a back-off, from the last attempt.
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

// wanting reports whether a container waits for anything other than the pod's other containers.
func wanting(c corev1.ContainerStatus) bool {
	return c.State.Waiting != nil && c.State.Waiting.Reason != "PodInitializing"
}

// The injector's labels on probes. Probes are skipped, because another check covers a probe that does not start.
const (
	LabelOfProbes = "app.kubernetes.io/managed-by"
	NameOfProbes  = "calico-probe"
)

// NameOf formats a pod as NAMESPACE/NAME.
func NameOf(p *corev1.Pod) string { return probe.OneLine(p.Namespace + "/" + p.Name) }

const (
	EndsLate  = time.Minute // after the grace period, when the kubelet has killed the pod; unmounting takes seconds
	endsAsked = 6           // maximum number of pods whose events are read, the longest overdue first
)

// Endings returns the terminating pods, the longest overdue first. It omits pods with a finalizer: they may have exited
// long ago and still wait for the finalizer's owner.
func Endings(pods []corev1.Pod) []Waiter {
	var out []Waiter
	for i := range pods {
		p := &pods[i]
		if p.DeletionTimestamp == nil || len(p.Finalizers) > 0 || p.Labels[LabelOfProbes] == NameOfProbes {
			continue
		}
		out = append(out, Waiter{Pod: p, Since: p.DeletionTimestamp.Time}) // the timestamp includes the grace period
	}
	slices.SortStableFunc(out, func(a, b Waiter) int { return a.Since.Compare(b.Since) })
	return out
}

// KillWord returns the kubelet's last event about a pod that it could not kill.
func KillWord(events []corev1.Event, node string) *corev1.Event {
	var last *corev1.Event
	for i := range events {
		e := &events[i]
		if e.Reason == facts.EventKill && fromKubelet(e, node) && (last == nil || !eventTime(e).Before(eventTime(last))) {
			last = e
		}
	}
	return last
}

// eventFailed is a reason that the kubelet uses in events about failed image pulls, and in others.
const (
	eventFailed = "Failed"
	saidOfPull  = "Failed to pull image "
)

// PullWord returns the last event about a failed image pull. Kubelets before 1.31 report only the back-off in the
// container's state.
func PullWord(events []corev1.Event, node string) *corev1.Event {
	var last *corev1.Event
	for i := range events {
		e := &events[i]
		if e.Reason == eventFailed && strings.HasPrefix(e.Message, saidOfPull) && fromKubelet(e, node) &&
			(last == nil || !eventTime(e).Before(eventTime(last))) {
			last = e
		}
	}
	return last
}

// imageOf returns the image of a container of the pod.
func imageOf(p *corev1.Pod, c corev1.ContainerStatus) string {
	for _, spec := range slices.Concat(p.Spec.InitContainers, p.Spec.Containers) {
		if spec.Name == c.Name {
			return spec.Image
		}
	}
	return c.Image
}

// OwnAddress reports whether a pod has an address other than its node's.
func OwnAddress(p corev1.Pod) bool { return !p.Spec.HostNetwork && len(p.Status.PodIPs) > 0 }

// Running lists the pods that run on a node.
func (c *Client) Running(ctx context.Context, node string) ([]corev1.Pod, error) {
	ctx, cancel := context.WithTimeout(ctx, readLimit)
	defer cancel()
	return c.podsOn(ctx, node, "status.phase=Running,")
}

// podsOn lists the pods that are bound to a node, filtered by further field selectors.
func (c *Client) podsOn(ctx context.Context, node, others string) ([]corev1.Pod, error) {
	list, err := c.kube.CoreV1().Pods(metav1.NamespaceAll).List(ctx, metav1.ListOptions{
		FieldSelector: others + "spec.nodeName=" + node, ResourceVersion: "0",
	})
	if err != nil {
		return nil, fmt.Errorf("listing pods of node %s: %w", node, err)
	}
	return list.Items, nil
}
