package cluster

import (
	"context"
	"regexp"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/probe/facts"
)

// told is what the kubelet's events say of a calico-node pod that is not ready.
type told struct {
	waits  *corev1.Event // how far it has come, nil = nothing is said
	probes string        // why its liveness or readiness probe failed last
	limit  string        // the limit of processes or files that one of these failures names, "" = none
}

// readStart reads what tells why calico-node does not start, where it has not.
func (c *Client) readStart(ctx context.Context, s *Snapshot, env environment) {
	s.typhaName = typhaOf(env)
	if len(startTaints(s.Node)) > 0 {
		s.kept = c.readKept(ctx)
	}
	switch {
	case s.CalicoErr != nil:
	case s.Calico == nil:
		// It is the one thing that tells a DaemonSet that made none from a scheduler that placed none.
		s.unplaced = c.readUnplaced(ctx, s.Node.Name)
	case !podReady(s.Calico):
		s.told = c.readTold(ctx, s.Calico)
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
	out := told{waits: lastWord(list.Items, pod.Spec.NodeName)}
	var last *corev1.Event
	for i := range list.Items {
		e := &list.Items[i]
		if e.Reason != "Unhealthy" || !fromKubelet(e, pod.Spec.NodeName) {
			continue
		}
		if limit := limitIn(e.Message); limit != "" {
			out.limit, last = limit, e
		} else if out.limit == "" && (last == nil || !eventTime(e).Before(eventTime(last))) {
			last = e
		}
	}
	if last != nil {
		out.probes = probe.Quoted(last.Message[:min(len(last.Message), longestEvent)])
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
			says := probe.Quoted(general(waiter{pod: s.Calico}, e.Message))
			r.Saw += "; the kubelet says: " + says
			return r.With(facts.Starts, starts).With(facts.Message, says)
		}
	}
	if s.told.probes != "" {
		r.Saw += "; the kubelet says: " + s.told.probes
		r = r.With(facts.ProbeSays, s.told.probes)
	}
	if s.told.limit != "" {
		r = r.With(facts.Limit, s.told.limit)
	}
	return r
}
