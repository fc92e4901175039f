package cluster

import (
	"context"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/probe/facts"
)

// told is what the kubelet's events say of a calico-node pod that is not ready.
type told struct {
	waits  *corev1.Event              // how far it has come, nil = nothing is said
	probes probe.Statement            // why its liveness or readiness probe failed last, of the present not-ready period
	limit  string                     // the limit of processes or files that one of these failures names, "" = none
	before probe.Statement            // why it failed last before that period, where it has not failed since
	broken *brokenProbe               // a probe or hook that cannot succeed, nil = none
	others map[types.UID]*brokenProbe // the same of pods of calico-kube-controllers
	err    error                      // why this is not known: a crash while it was read
}

// kubeletName is who reports what is quoted of the kubelet's events.
const kubeletName = "the kubelet"

// readStart reads what tells why calico-node does not start, where it has not.
func (c *Client) readStart(ctx context.Context, s *Snapshot, env environment) {
	s.typhaName = typhaOf(env)
	if len(startTaints(s.Node)) > 0 || s.Node.Spec.Unschedulable {
		s.kept = c.readKept(ctx)
	}
	switch {
	case s.CalicoErr != nil:
	case s.Calico == nil:
		// It is the one thing that tells a DaemonSet that made none from a scheduler that placed none.
		s.unplaced = c.readUnplaced(ctx, s.Node.Name)
	case !podReady(s.Calico):
		s.told = c.readTold(ctx, s.Calico)
	case restartedLately(s.Calico, s.Now):
		s.told.broken = c.readTold(ctx, s.Calico).broken
	}
	for i := range s.controllers {
		p := &s.controllers[i]
		if p.Spec.NodeName != s.Node.Name || podReady(p) && !restartedLately(p, s.Now) {
			continue
		}
		if broken := c.readTold(ctx, p).broken; broken != nil {
			if s.told.others == nil {
				s.told.others = map[types.UID]*brokenProbe{}
			}
			s.told.others[p.UID] = broken
		}
	}
}

// readTold reads the events of a pod; where they cannot be read nothing is told.
func (c *Client) readTold(ctx context.Context, pod *corev1.Pod) told {
	list, err := c.kube.CoreV1().Events(pod.Namespace).List(ctx, metav1.ListOptions{
		FieldSelector: "involvedObject.uid=" + string(pod.UID), Limit: eventsMost,
	})
	if err != nil {
		return told{}
	}
	out := told{waits: lastWord(list.Items, pod.Spec.NodeName), broken: brokenIn(list.Items, pod.Spec.NodeName)}
	for i := range list.Items {
		e := &list.Items[i]
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
	return out
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
	if s.Calico == nil {
		for i, why := range s.refused {
			if why.Text != "" && !why.Current(s.Now.Add(-refusedFor)) {
				out = append(out, why.History(s.Now).On(s.sets[i].Namespace+"/"+s.sets[i].Name+" history"))
			}
		}
	} else if s.told.before.Text != "" && s.told.probes.Text == "" {
		out = append(out, s.told.before.History(s.Now).On(nameOf(s.Calico)+" history"))
	}
	if s.told.err != nil {
		out = append(out, unread(fmt.Errorf("reading the kubelet's events: %w", s.told.err)).On("kubelet's events"))
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
	if e := s.told.waits; e != nil && !begun(s.Calico) {
		starts := map[string]string{
			eventMount: facts.StartsVolume, eventAttach: facts.StartsVolume, eventMap: facts.StartsVolume,
			eventSandbox: facts.StartsSandbox, eventCgroup: facts.StartsSandbox, eventNetwork: facts.StartsNetwork,
		}[e.Reason]
		if starts != "" {
			said := statementOf(e)
			said.Text = probe.Quoted(general(waiter{pod: s.Calico}, e.Message))
			r.Saw += "; the kubelet reported: " + said.Aged(s.Now)
			return r.With(facts.Starts, starts).With(facts.Message, said.Text)
		}
	}
	if said := s.told.probes; said.Text != "" && r.Facts[facts.BrokenProbe] == nil {
		r.Saw += "; the kubelet reported: " + said.Aged(s.Now)
		r = r.With(facts.ProbeSays, said.Text)
	}
	if s.told.limit != "" {
		r = r.With(facts.Limit, s.told.limit)
	}
	return r
}
