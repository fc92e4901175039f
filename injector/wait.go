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

	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/probe/facts"
)

// placed is a probe that is being put on a node, and what was created for it.
type placed struct {
	client    *Client
	options   Options
	namespace string
	pod       string // the probe's own pod, or the one it joined
	container string
	joined    bool                     // the pod is somebody else's
	altered   func(*corev1.Pod) string // in what it is not the one that was asked for, "" = in nothing
	unwatched bool                     // there is no right to watch it
	unread    bool                     // there is no right to its events
	began     time.Time                // of the wait

	job          string
	stopRenewing context.CancelFunc

	created    []string
	image      string // what it runs from, as the kubelet says
	afterwards string // said once the probe runs
}

// awaitRunning waits until the probe's container runs, and says meanwhile what it
// waits for. It gives up as soon as waiting cannot help.
func (p *placed) awaitRunning(ctx context.Context, pod *corev1.Pod) error {
	p.began = time.Now()
	ctx, cancel := context.WithTimeout(ctx, p.options.Start)
	defer cancel()
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	said := ""
	var events []corev1.Event
	// follow looks at the pod until the watch ends; true = there is nothing more to wait for.
	follow := func(w watch.Interface) (bool, error) {
		defer w.Stop()
		for {
			s := standingOf(pod, p.container, events)
			what := p.altered(pod)
			switch {
			case what != "":
				return true, alteredBy(what).And("so nothing was asked of it")
			case s.refusal != nil:
				return true, s.refusal
			case s.running:
				p.image = s.image
				if p.afterwards != "" {
					p.options.Note(p.afterwards)
				}
				return true, nil
			case s.text != said && time.Since(p.began) > time.Second:
				said = s.text
				p.options.Progress("waiting: " + said)
			}
			select {
			case ev := <-w.ResultChan():
				seen, ok := ev.Object.(*corev1.Pod)
				if !ok { // it has ended, or is an error: look again from now
					return false, nil
				}
				if pod = seen; ev.Type == watch.Deleted {
					return true, refuse(facts.ReasonKubelet, "pod %s/%s was deleted before the probe ran: %s", pod.Namespace, pod.Name, s.text)
				}
			case <-tick.C:
				var known bool
				events, known = p.events(ctx, pod)
				if idle := p.options.Idle; idle > 0 && time.Since(p.began) > idle && known && idleYet(pod, p.container, events) {
					return true, p.gaveUp(ctx, pod, events, context.DeadlineExceeded)
				}
			case <-ctx.Done():
				return true, p.gaveUp(ctx, pod, events, ctx.Err())
			}
		}
	}
	for {
		w, err := p.watch(ctx, pod)
		if err != nil {
			return p.gaveUp(ctx, pod, events, err)
		}
		if done, err := follow(w); done {
			return err
		}
		if fresh, err := p.client.kube.CoreV1().Pods(pod.Namespace).Get(ctx, pod.Name, metav1.GetOptions{}); err == nil {
			pod = fresh
		} else if apierrors.IsNotFound(err) {
			return refuse(facts.ReasonKubelet, "pod %s/%s was deleted before the probe ran", pod.Namespace, pod.Name)
		} else if apierrors.IsForbidden(err) && p.unwatched {
			return refuse(facts.ReasonRBAC, "no right to see whether the probe starts, for which it takes get or watch: %s", probe.OneLine(err.Error()))
		}
	}
}

// watch follows the pod from what is known of it.
func (p *placed) watch(ctx context.Context, pod *corev1.Pod) (watch.Interface, error) {
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
		if apierrors.IsForbidden(err) { // then it is looked at again and again
			if !p.unwatched {
				p.unwatched = true
				p.options.Note(fmt.Sprintf("no right to watch pods in namespace %s: looking at the probe's twice a second instead", pod.Namespace))
			}
			return watch.NewEmptyWatch(), nil
		}
	}
}

// events are the pod's own events since it was created; false without the right to
// read them.
func (p *placed) events(ctx context.Context, pod *corev1.Pod) ([]corev1.Event, bool) {
	list, err := p.client.kube.CoreV1().Events(pod.Namespace).List(ctx, metav1.ListOptions{
		FieldSelector: fields.OneTermEqualSelector("involvedObject.uid", string(pod.UID)).String(),
	})
	if err != nil {
		if apierrors.IsForbidden(err) && !p.unread {
			p.unread = true
			p.options.Note(fmt.Sprintf("no right to list events in namespace %s: why the probe does not start is known less well", pod.Namespace))
		}
		return nil, false
	}
	if p.joined { // that pod has a history of its own
		list.Items = slices.DeleteFunc(list.Items, func(e corev1.Event) bool { return !strings.Contains(e.InvolvedObject.FieldPath, p.container) })
	}
	return list.Items, true
}

// idleYet tells whether nothing at all has been done for a container: no event, no
// sandbox, no word of what it waits for. On a healthy node all of that takes a
// second, and the pull of an image is an event.
func idleYet(pod *corev1.Pod, container string, events []corev1.Event) bool {
	s := standingOf(pod, container, events)
	sandbox := slices.ContainsFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool {
		return c.Type == corev1.PodReadyToStartContainers && c.Status == corev1.ConditionTrue
	})
	return len(events) == 0 && !sandbox && (s.untouched || s.text == creating)
}

// creating is what every container waits for at first.
const creating = "ContainerCreating"

// gaveUp says what stood in the way when the time was up.
func (p *placed) gaveUp(ctx context.Context, pod *corev1.Pod, events []corev1.Event, cause error) error {
	if errors.Is(context.Cause(ctx), context.Canceled) {
		return fmt.Errorf("stopped while waiting for the probe to start: %w", context.Canceled)
	}
	if !errors.Is(cause, context.DeadlineExceeded) {
		return &PlacementError{Reason: facts.ReasonAPI, Text: fmt.Sprintf("watching pod %s/%s: %v", pod.Namespace, pod.Name, cause), Err: cause}
	}
	s, took := standingOf(pod, p.container, events), time.Since(p.began).Round(100*time.Millisecond)
	if pod.Status.StartTime == nil && !p.joined {
		return waited(facts.ReasonKubelet, "the kubelet of %s did not take pod %s up within %v", p.options.Node, pod.Name, took)
	}
	happened := func(what string) bool {
		return slices.ContainsFunc(events, func(e corev1.Event) bool { return e.Reason == what })
	}
	if happened("Pulling") && !happened("Pulled") {
		return waited(facts.ReasonImage, "image %s is still being pulled after %v; --start-timeout gives it longer, --image names another", p.options.Image, took)
	}
	reason := facts.ReasonRuntime
	if s.untouched && p.joined {
		reason = facts.ReasonKubelet
	}
	return waited(reason, "the probe did not start within %v: %s", took, s.text)
}

// standing is how far a container has come.
type standing struct {
	running   bool
	image     string // what it runs from, once it does
	untouched bool   // the kubelet has said nothing about it yet
	text      string // what it waits for
	refusal   *PlacementError
}

// standingOf reads a container's standing from its pod and the pod's warnings.
func standingOf(pod *corev1.Pod, container string, events []corev1.Event) standing {
	last := ""
	for _, e := range events {
		if e.Type == corev1.EventTypeNormal {
			continue
		}
		last = fmt.Sprintf(" (%s: %s)", e.Reason, probe.OneLine(e.Message))
	}
	all := slices.Concat(pod.Status.ContainerStatuses, pod.Status.EphemeralContainerStatuses)
	i := slices.IndexFunc(all, func(c corev1.ContainerStatus) bool { return c.Name == container })
	if pod.Status.Phase == corev1.PodFailed && (i < 0 || pod.Status.Reason != "") { // not taken, or evicted
		text := probe.OneLine(pod.Status.Reason + ": " + pod.Status.Message)
		return standing{refusal: refuse(facts.ReasonRejected, "the kubelet rejected the pod: %s", text)}
	}
	if i < 0 {
		return standing{untouched: true, text: "the kubelet has not reported the container yet" + last}
	}
	switch c := all[i]; {
	case c.State.Running != nil:
		return standing{running: true, image: probe.OneLine(c.ImageID)}
	case c.State.Terminated != nil:
		t := c.State.Terminated
		reason := facts.ReasonRuntime
		if t.Reason == "ContainerCannotRun" || t.Reason == "StartError" {
			reason = facts.ReasonImage
		}
		return standing{refusal: refuse(reason, "the probe ended at once: %s, exit code %d %s%s", t.Reason, t.ExitCode, t.Message, last)}
	case c.State.Waiting != nil:
		return waitingOn(c, last)
	}
	return standing{untouched: true, text: "the container has no state yet" + last}
}

func waitingOn(c corev1.ContainerStatus, last string) standing {
	w := c.State.Waiting
	text := strings.TrimSpace(w.Reason + " " + probe.OneLine(w.Message))
	switch {
	case probe.ImageWanting(w.Reason):
		return standing{text: text, refusal: refuse(facts.ReasonImage,
			"image %s cannot be had on this node: %s; name another with --image, or import it on the node", c.Image, text)}
	case slices.Contains([]string{"CreateContainerError", "CreateContainerConfigError", "RunContainerError", "PostStartHookError"}, w.Reason):
		return standing{text: text, refusal: refuse(facts.ReasonRuntime, "the container runtime refuses the probe: %s", text+last)}
	}
	return standing{text: text + last}
}
