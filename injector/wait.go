package injector

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/calico-probe/calico-probe/internal/trace"
	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/probe/facts"
)

// placement is a probe that is being started on a node, with the objects created for it.
type placement struct {
	client    *Client
	options   Options
	namespace string
	pod       string // the probe's own pod, or the pod that its container was added to
	container string
	joined    bool                     // the pod is not ours
	altered   func(*corev1.Pod) string // how the pod differs from the requested pod; "" = no difference
	unwatched bool                     // no right to watch the pod
	unread    bool                     // no right to list the pod's events
	began     time.Time                // start of the wait

	job          string
	stopRenewing context.CancelFunc

	created    []string
	image      string // the probe's image, as the kubelet reports it
	afterwards string // a note for the user once the probe runs
}

// startup is the state of waiting until a probe's container runs.
type startup struct {
	*placement
	pod    *corev1.Pod    // last known version of the pod
	events []corev1.Event // events of the pod
	said   string         // the last reported progress
	tick   *time.Ticker   // when to reread the events
}

// awaitRunning waits until the probe's container runs, and reports progress. It gives up as soon as waiting is
// pointless.
func (p *placement) awaitRunning(ctx context.Context, pod *corev1.Pod) error {
	p.began = time.Now()
	ctx, started := trace.Span(ctx, "the container starts")
	defer started()
	ctx, cancel := context.WithTimeout(ctx, p.options.Start)
	defer cancel()
	s := &startup{placement: p, pod: pod, tick: time.NewTicker(time.Second)}
	defer s.tick.Stop()
	for {
		w, err := p.watch(ctx, s.pod)
		if err != nil {
			return s.gaveUp(ctx, err)
		}
		if done, err := s.follow(ctx, w); done {
			return err
		}
		if err := s.readPod(ctx); err != nil {
			return err
		}
	}
}

// follow checks the pod, and each change that a watch reports, until the watch ends. If done is true, the wait is over.
// If err is also nil, the probe runs.
func (s *startup) follow(ctx context.Context, w watch.Interface) (done bool, err error) {
	defer w.Stop()
	for {
		state := containerStateOf(s.pod, s.container, s.events)
		if done, err := s.decide(state); done {
			return true, err
		}
		select {
		case ev := <-w.ResultChan():
			pod, ok := ev.Object.(*corev1.Pod)
			if !ok { // the watch ended or failed: start a new one
				return false, nil
			}
			if s.pod = pod; ev.Type == watch.Deleted {
				return true, refuse(facts.ReasonKubelet, "pod %s/%s was deleted before the probe ran: %s", pod.Namespace, pod.Name, state.text)
			}
		case <-s.tick.C:
			events, known := s.readEvents(ctx, s.pod)
			if known { // otherwise keep the earlier events, for example after a timeout
				s.events = events
			}
			late := s.options.Idle > 0 && time.Since(s.began) > s.options.Idle
			if late && known && nothingDone(s.pod, s.container, s.events) {
				return true, s.gaveUp(ctx, context.DeadlineExceeded)
			}
		case <-ctx.Done():
			return true, s.gaveUp(ctx, ctx.Err())
		}
	}
}

// decide reports whether a container state ends the wait, and with which error. It shows other states to the user.
func (s *startup) decide(state containerState) (done bool, err error) {
	what := s.altered(s.pod)
	switch {
	case what != "":
		return true, alteredBy(what).And("so the probe does not get a request")
	case state.refusal != nil:
		return true, state.refusal
	case state.running:
		s.image = state.image
		if s.afterwards != "" {
			s.options.Note(s.afterwards)
		}
		return true, nil
	case state.text != s.said && time.Since(s.began) > time.Second:
		s.said = state.text
		s.options.Progress("waiting: " + s.said)
	}
	return false, nil
}

// readPod reads the pod again before the next watch. The error reports why waiting cannot continue.
func (s *startup) readPod(ctx context.Context) error {
	pod, err := s.client.kube.CoreV1().Pods(s.pod.Namespace).Get(ctx, s.pod.Name, metav1.GetOptions{})
	switch {
	case err == nil:
		s.pod = pod
	case apierrors.IsNotFound(err):
		return refuse(facts.ReasonKubelet, "pod %s/%s was deleted before the probe ran", s.pod.Namespace, s.pod.Name)
	case apierrors.IsForbidden(err) && s.unwatched:
		return refuse(facts.ReasonRBAC, "no right to get or watch the probe's pod: %s", probe.OneLine(err.Error()))
	}
	return nil
}

// watch starts a watch of the pod from its last known version. If the user has no right to watch, it returns a closed
// watch after half a second, and the caller then polls.
func (p *placement) watch(ctx context.Context, pod *corev1.Pod) (watch.Interface, error) {
	for {
		w, err := p.client.kube.CoreV1().Pods(pod.Namespace).Watch(ctx, metav1.ListOptions{
			FieldSelector: fields.OneTermEqualSelector("metadata.name", pod.Name).String(), ResourceVersion: pod.ResourceVersion,
		})
		if err == nil || ctx.Err() != nil {
			return w, err
		}
		select {
		case <-ctx.Done():
		case <-time.After(500 * time.Millisecond):
		}
		if apierrors.IsForbidden(err) { // poll the pod instead
			if !p.unwatched {
				p.unwatched = true
				p.options.Note(fmt.Sprintf("no right to watch pods in namespace %s: polling the probe's pod twice a second instead", pod.Namespace))
			}
			return watch.NewEmptyWatch(), nil
		}
	}
}

// readEvents lists the pod's events since its creation. It returns false if the user has no right to read events.
func (p *placement) readEvents(ctx context.Context, pod *corev1.Pod) ([]corev1.Event, bool) {
	list, err := p.client.kube.CoreV1().Events(pod.Namespace).List(ctx, metav1.ListOptions{
		FieldSelector: fields.OneTermEqualSelector("involvedObject.uid", string(pod.UID)).String(),
	})
	if err != nil {
		if apierrors.IsForbidden(err) && !p.unread {
			p.unread = true
			p.options.Note(fmt.Sprintf("no right to list events in namespace %s: less detail if the probe does not start", pod.Namespace))
		}
		return nil, false
	}
	if p.joined { // the pod's earlier events are not ours
		list.Items = slices.DeleteFunc(list.Items,
			func(e corev1.Event) bool { return !strings.Contains(e.InvolvedObject.FieldPath, p.container) })
	}
	return list.Items, true
}

// nothingDone reports whether the kubelet has not started work on a container: there is no event, sandbox or waiting
// reason. A healthy node starts work within a second. Pulling an image creates an event.
func nothingDone(pod *corev1.Pod, container string, events []corev1.Event) bool {
	s := containerStateOf(pod, container, events)
	sandbox := slices.ContainsFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool {
		return c.Type == corev1.PodReadyToStartContainers && c.Status == corev1.ConditionTrue
	})
	return len(events) == 0 && !sandbox && (s.unreported || s.text == creating)
}

// creating is the waiting reason that every new container has.
const creating = "ContainerCreating"

// gaveUp returns why the probe does not run, after the time limit has passed or a watch has failed.
func (s *startup) gaveUp(ctx context.Context, cause error) error {
	pod := s.pod
	if errors.Is(context.Cause(ctx), context.Canceled) {
		return fmt.Errorf("stopped while waiting for the probe to start: %w", context.Canceled)
	}
	if !errors.Is(cause, context.DeadlineExceeded) {
		text := fmt.Sprintf("watching pod %s/%s: %v", pod.Namespace, pod.Name, cause)
		return &PlacementError{Reason: facts.ReasonAPI, Text: text, Err: cause}
	}
	state := containerStateOf(pod, s.container, s.events)
	took := time.Since(s.began).Round(100 * time.Millisecond)
	if pod.Status.StartTime == nil && !s.joined {
		return waited(facts.ReasonKubelet, "the kubelet of %s did not start pod %s within %v", s.options.Node, pod.Name, took)
	}
	happened := func(what string) bool {
		return slices.ContainsFunc(s.events, func(e corev1.Event) bool { return e.Reason == what })
	}
	if happened("Pulling") && !happened("Pulled") {
		return waited(facts.ReasonImage, "image %s is still being pulled after %v; raise --start-timeout, or use another image with --image", s.options.Image, took)
	}
	reason := facts.ReasonRuntime
	if state.unreported && s.joined {
		reason = facts.ReasonKubelet
	}
	err := waited(reason, "the probe did not start within %v: %s", took, state.text)
	err.Sandbox = sandboxOf(s.events)
	return err
}

// sandboxOf returns the kubelet's newest event about a failed sandbox, or nil.
func sandboxOf(events []corev1.Event) *facts.Sandbox {
	var last *corev1.Event
	for i := range events {
		e := &events[i]
		kubelets := e.Reason == facts.EventSandbox && e.Source.Component == "kubelet"
		if kubelets && (last == nil || !e.LastTimestamp.Before(&last.LastTimestamp)) {
			last = e
		}
	}
	if last == nil {
		return nil
	}
	said := facts.SandboxFailed(probe.OneLine(last.Message[:min(len(last.Message), maxSaid)]))
	return &said
}

// maxSaid is the maximum number of bytes of a message to read. The kubelet and the API server truncate messages well
// below this limit.
const maxSaid = 16 << 10

// withRuntimeFault adds the broken part of the runtime to a refusal if the runtime's message about the container shows
// that part.
func withRuntimeFault(refusal *PlacementError, says string) *PlacementError {
	if said := facts.ContainerFailed(probe.OneLine(says[:min(len(says), maxSaid)])); said.Obstacle != "" {
		refusal.Sandbox = &said
	}
	return refusal
}

// containerState is a container's progress toward running.
type containerState struct {
	running    bool
	image      string // the image, once the container runs
	unreported bool   // the kubelet has not reported the container yet
	text       string // the waiting reason
	refusal    *PlacementError
}

// containerStateOf reads the state of a container from its pod and the pod's warnings.
func containerStateOf(pod *corev1.Pod, container string, events []corev1.Event) containerState {
	last := ""
	for _, e := range events {
		if e.Type == corev1.EventTypeNormal {
			continue
		}
		last = fmt.Sprintf(" (%s: %s)", e.Reason, probe.OneLine(e.Message))
	}
	all := slices.Concat(pod.Status.ContainerStatuses, pod.Status.EphemeralContainerStatuses)
	i := slices.IndexFunc(all, func(c corev1.ContainerStatus) bool { return c.Name == container })
	if pod.Status.Phase == corev1.PodFailed && (i < 0 || pod.Status.Reason != "") { // never started, or evicted
		text := probe.OneLine(pod.Status.Reason + ": " + pod.Status.Message)
		return containerState{refusal: refuse(facts.ReasonRejected, "the kubelet rejected the pod: %s", text)}
	}
	if i < 0 {
		return containerState{unreported: true, text: "the kubelet has not reported the container yet" + last}
	}
	switch c := all[i]; {
	case c.State.Running != nil:
		return containerState{running: true, image: probe.OneLine(c.ImageID)}
	case c.State.Terminated != nil:
		t := c.State.Terminated
		reason := facts.ReasonRuntime
		if t.Reason == "ContainerCannotRun" || t.Reason == "StartError" {
			reason = facts.ReasonImage
		}
		refusal := refuse(reason, "the probe exited immediately: %s, exit code %d %s%s", t.Reason, t.ExitCode, t.Message, last)
		return containerState{refusal: withRuntimeFault(refusal, t.Message)}
	case c.State.Waiting != nil:
		return waitingOn(c, last)
	}
	return containerState{unreported: true, text: "the container has no state yet" + last}
}

// waitingOn returns the state of a waiting container. last is the last warning about the container.
func waitingOn(c corev1.ContainerStatus, last string) containerState {
	w := c.State.Waiting
	text := strings.TrimSpace(w.Reason + " " + probe.OneLine(w.Message))
	switch {
	case probe.ImageWanting(w.Reason):
		refusal := refuse(facts.ReasonImage,
			"this node cannot get image %s: %s; name another image with --image, or import it on the node", c.Image, text)
		return containerState{text: text, refusal: withRuntimeFault(refusal, w.Message)}
	case slices.Contains([]string{
		"CreateContainerError", "CreateContainerConfigError", "RunContainerError", "PostStartHookError",
	}, w.Reason):
		refusal := refuse(facts.ReasonRuntime, "the container runtime refuses the probe: %s", text+last)
		return containerState{text: text, refusal: withRuntimeFault(refusal, w.Message)}
	}
	return containerState{text: text + last}
}
