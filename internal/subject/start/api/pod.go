package api

import (
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/calico-probe/calico-probe/internal/apicheck"
	"github.com/calico-probe/calico-probe/internal/cluster"
	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/probe/facts"
)

// CalicoPod reports the state of the node's calico-node pod, or why there is no pod.
func CalicoPod(s *cluster.Snapshot, report func(probe.Result)) {
	defer func() {
		for _, r := range append(calicoHistory(s), s.Ignored()...) {
			report(r)
		}
	}()
	switch {
	case s.Calico.Err != nil:
		report(apicheck.Unread(s.Calico.Err))
		return
	case s.Calico.Value == nil && cluster.NotCalicos(s.Node) != "":
		report(probe.Found(probe.Skip, "calico-node is not checked here: %s", cluster.NotCalicos(s.Node)))
		return
	case s.Calico.Value == nil:
		r := probe.Found(probe.Fail, "no calico-node pod on this node (label %s, namespace %s)", cluster.CalicoPods,
			strings.Join(s.CalicoIn, " or "))
		if text := labelHint(s.Node); text != "" && s.Sets.Value == nil {
			r.Saw += text
			r = r.With(facts.Skips, facts.SkipsSelector).With(facts.SkippedBy, corev1.LabelOSStable+"=linux")
		}
		report(withSkipReason(s, r).With(probe.FactReason, facts.ReasonNoPod))
		return
	}
	pod := s.Calico.Value
	name := pod.Namespace + "/" + pod.Name
	send := func(r probe.Result) {
		r = withKubeletMessage(s, r)
		if r.Status == probe.OK && cluster.KubeletSilent(s) { // the status is old if the kubelet is dead
			r.Status = probe.Unknown
			r.Saw = "the kubelet is silent (see node-lease); last reported: " + r.Saw
		}
		if lacksToken(s, pod) {
			r = r.With(facts.NoToken, true)
		}
		if _, owner, ok := strings.Cut(cluster.DaemonSetOf(pod), "/"); ok {
			r = r.With(facts.Owner, owner)
		}
		report(r.On(name).With(facts.Pod, name).With(facts.Operator, byOperator(pod)))
	}
	if pod.DeletionTimestamp != nil {
		age := s.Now.Sub(pod.DeletionTimestamp.Time)
		send(probe.Found(lateness(age), "terminating, due %s ago", probe.Age(max(0, age))))
	}
	if r, stuck := initState(s); stuck {
		send(r)
		return
	}
	for _, c := range pod.Status.ContainerStatuses {
		for _, r := range containerState(s, c) {
			send(s.Startup.Value.Broken.On(r.With(facts.Container, c.Name), c, s.Now))
		}
	}
	if len(pod.Status.ContainerStatuses) == 0 {
		age := s.Now.Sub(pod.CreationTimestamp.Time)
		send(probe.Found(lateness(age), "%s for %s: the kubelet has not reported any container", pod.Status.Phase,
			probe.Age(age)).
			With(facts.Phase, string(pod.Status.Phase)))
	}
}

// byOperator reports whether the Tigera operator created a calico-node pod: it annotates the pod with hashes of its
// configuration, in any namespace.
func byOperator(pod *corev1.Pod) bool {
	for key := range pod.Annotations {
		if strings.Contains(key, "hash.operator.tigera.io/") {
			return true
		}
	}
	return false
}

// initState reports the init container at which the pod's start hangs, if any.
func initState(s *cluster.Snapshot) (probe.Result, bool) {
	total := len(s.Calico.Value.Spec.InitContainers)
	for i, c := range s.Calico.Value.Status.InitContainerStatuses {
		at := fmt.Sprintf("Init:%d/%d", i, total)
		switch {
		case c.State.Terminated != nil && c.State.Terminated.ExitCode == 0:
			continue
		case c.State.Running != nil && c.Started != nil && *c.Started && cluster.Restartable(s.Calico.Value, c.Name):
			continue // a sidecar
		case c.State.Running != nil:
			age := s.Now.Sub(c.State.Running.StartedAt.Time)
			return probe.Found(lateness(age), "%s: init container %s has been running for %s, %s", at, c.Name, probe.Age(age),
				cluster.Plural(int(c.RestartCount), "restart")).
				With(facts.Container, c.Name).With(facts.Age, int(age.Seconds())).With(facts.APIReason, at), true
		case startFailure(c).Text != "":
			r := probe.Found(probe.Fail, "%s: init container %s cannot start: %s", at, c.Name,
				startFailure(c).Aged(s.Now))
			return withStartFailure(r, c), true
		case c.State.Waiting != nil && (c.RestartCount > 0 || c.State.Waiting.Reason != "PodInitializing"):
			return withPullError(probe.Found(probe.Fail, "%s: init container %s waiting: %s%s", at, c.Name, c.State.Waiting.Reason,
				lastRun(c, s.Now)).
				With(facts.Container, c.Name).With(facts.APIReason, c.State.Waiting.Reason).With(facts.Restarts,
				int(c.RestartCount)), c), true
		case c.State.Terminated != nil:
			return probe.Found(probe.Fail, "%s: init container %s exited %d (%s)", at, c.Name,
				c.State.Terminated.ExitCode, c.State.Terminated.Reason).
				With(facts.Container, c.Name).With(facts.ExitCode, int(c.State.Terminated.ExitCode)), true
		default:
			age := s.Now.Sub(s.Calico.Value.CreationTimestamp.Time)
			return probe.Found(lateness(age), "%s: init container %s has not started, pod is %s old", at, c.Name,
				probe.Age(age)).
				With(facts.Container, c.Name), true
		}
	}
	return probe.Result{}, false
}

func containerState(s *cluster.Snapshot, c corev1.ContainerStatus) []probe.Result {
	restarts := cluster.Plural(int(c.RestartCount), "restart")
	var out []probe.Result
	switch {
	case startFailure(c).Text != "":
		r := probe.Found(probe.Fail, "%s cannot start: %s, %s", c.Name, startFailure(c).Aged(s.Now), restarts)
		out = append(out, withStartFailure(r, c))
	case c.State.Waiting != nil:
		age := s.Now.Sub(s.Calico.Value.CreationTimestamp.Time)
		status := probe.Fail
		if c.State.Waiting.Reason == "ContainerCreating" || c.State.Waiting.Reason == "PodInitializing" {
			status = lateness(age)
		}
		out = append(out, withPullError(probe.Found(status, "%s waiting: %s, %s%s", c.Name, c.State.Waiting.Reason, restarts,
			lastRun(c, s.Now)).
			With(facts.APIReason, c.State.Waiting.Reason), c))
	case c.State.Terminated != nil:
		out = append(out, probe.Found(probe.Fail, "%s terminated: %s, exit code %d, %s", c.Name, c.State.Terminated.Reason,
			c.State.Terminated.ExitCode, restarts))
	case c.State.Running == nil: // no state is set until the kubelet reports one
		age := s.Now.Sub(s.Calico.Value.CreationTimestamp.Time)
		out = append(out, probe.Found(lateness(age), "%s has no state yet, %s", c.Name, restarts))
	case !c.Ready:
		age := s.Now.Sub(c.State.Running.StartedAt.Time)
		unready := min(age, s.Now.Sub(cluster.ConditionOfPod(s.Calico.Value, corev1.ContainersReady).Time))
		out = append(out, probe.Found(lateness(unready), "%s has not been ready for %s, running for %s, %s", c.Name,
			probe.Age(unready), probe.Age(age), restarts).With(facts.NotReady, int(unready.Seconds())))
		if probesBIRD(s, c.Name) && (s.Backend.Value == "vxlan" || s.Backend.Value == "none") {
			out[len(out)-1] = out[len(out)-1].With(probe.FactReason, facts.ReasonBirdProbe)
			out[len(out)-1].Saw += fmt.Sprintf("; its probe checks BIRD, which the networking backend %s does not run",
				s.Backend.Value)
		}
	default:
		age := s.Now.Sub(c.State.Running.StartedAt.Time)
		status, note := probe.OK, ""
		if c.RestartCount > 0 && age < cluster.Recent {
			status, note = probe.Warn, lastRun(c, s.Now)
		}
		out = append(out, probe.Found(status, "%s is running and ready, up %s, %s%s", c.Name, probe.Age(age), restarts,
			note).With(facts.Image, c.Image))
	}
	spec, _ := cluster.CalicoContainerOf(s.Calico.Value)
	for i := range out {
		out[i] = out[i].With(facts.Restarts, int(c.RestartCount))
		if spec != nil && spec.Name == c.Name {
			out[i] = withConstraints(out[i], spec)
		}
		if t := c.LastTerminationState.Terminated; t != nil {
			out[i] = out[i].With(facts.LastEnd, t.Reason)
			if t.Reason == "OOMKilled" && spec != nil && spec.Name == c.Name {
				out[i] = out[i].With(facts.Memory, spec.Resources.Limits.Memory().Value())
			}
		}
	}
	return out
}

// labelHint is the end of a sentence about a missing pod, "" if the node has the label that Calico's DaemonSets
// select, both in the manifests and with the operator.
func labelHint(n *corev1.Node) string {
	if n.Labels[corev1.LabelOSStable] == "linux" {
		return ""
	}
	return fmt.Sprintf("; the node's label %s is %q, but Calico's DaemonSets select linux", corev1.LabelOSStable,
		n.Labels[corev1.LabelOSStable])
}

// withPullError adds the kubelet's message about an image that it cannot pull.
func withPullError(r probe.Result, c corev1.ContainerStatus) probe.Result {
	if !probe.ImageWanting(c.State.Waiting.Reason) {
		return r
	}
	r.Saw += fmt.Sprintf("; image %s: %s", c.Image, apicheck.Message(c.State.Waiting.Message))
	text := probe.OneLine(c.State.Waiting.Message[:min(len(c.State.Waiting.Message), cluster.LongestEvent)])
	broken, refusal := facts.ContainerFailed(text), facts.PullFailed(text)
	if refusal != "" && broken.Obstacle == "" {
		r = r.With(facts.Refusal, refusal)
	}
	return broken.On(r).With(facts.Image, c.Image)
}

// startFailure is the kubelet's message about a container with a program that could not be started, empty for any other
// container. The message is about the present run, or about the previous one while the container waits.
func startFailure(c corev1.ContainerStatus) probe.Statement {
	for _, t := range []*corev1.ContainerStateTerminated{c.State.Terminated, c.LastTerminationState.Terminated} {
		if t != nil && (t.Reason == "StartError" || t.Reason == "ContainerCannotRun") && c.State.Running == nil {
			return probe.Statement{By: cluster.KubeletName, Text: apicheck.Message(t.Message), At: t.FinishedAt.Time}
		}
	}
	if w := c.State.Waiting; w != nil && slices.Contains([]string{
		"CreateContainerConfigError", "CreateContainerError", "RunContainerError", "PreCreateHookError", "PostStartHookError",
	}, w.Reason) {
		return probe.Statement{By: cluster.KubeletName, Text: apicheck.Message(w.Message)}
	}
	return probe.Statement{}
}

func withStartFailure(r probe.Result, c corev1.ContainerStatus) probe.Result {
	text := startFailure(c).Text
	r = r.With(facts.Container, c.Name).With(facts.NotStarted, true).With(facts.Message, text).
		With(facts.Restarts, int(c.RestartCount))
	return facts.ContainerFailed(text).On(r)
}

// probesBIRD reports whether a probe of the container requires BIRD.
func probesBIRD(s *cluster.Snapshot, container string) bool {
	spec, _ := cluster.CalicoContainerOf(s.Calico.Value)
	if spec == nil || spec.Name != container {
		return false
	}
	return slices.ContainsFunc([]*corev1.Probe{spec.ReadinessProbe, spec.LivenessProbe}, func(p *corev1.Probe) bool {
		return p != nil && p.Exec != nil && slices.ContainsFunc(p.Exec.Command,
			func(arg string) bool { return strings.Contains(arg, "-bird-") })
	})
}

// lastRun is how and when the previous container of this name exited, as the end of a sentence.
func lastRun(c corev1.ContainerStatus, now time.Time) string {
	t := c.LastTerminationState.Terminated
	if t == nil {
		return ""
	}
	text := ""
	if t.Message != "" {
		text = ": " + apicheck.Message(t.Message)
	}
	if t.StartedAt.Unix() <= 0 {
		return fmt.Sprintf("; the previous container never started (%s)%s", t.Reason, text)
	}
	return fmt.Sprintf("; previous container exited %d (%s) after %s, %s ago%s", t.ExitCode, t.Reason,
		probe.Age(t.FinishedAt.Sub(t.StartedAt.Time)), probe.Age(now.Sub(t.FinishedAt.Time)), text)
}

// lateness is warn for a recent start, and fail for work that should already be done.
func lateness(age time.Duration) probe.Status {
	if age < cluster.Patience {
		return probe.Warn
	}
	return probe.Fail
}

// Exit codes of a container that the kubelet killed: 128 + SIGKILL, 128 + SIGTERM. A container may also exit with 0 on
// SIGTERM. During start-up, its first process is a shell that ignores SIGTERM, so it is killed in the end. Later,
// runit's runsvdir is the first process. It exits with 0 on SIGTERM (runsvdir(8)), and never on its own.
const (
	exitKilled     = 137
	exitTerminated = 143
	exitStopped    = 0
)

func calicoBudget(s *cluster.Snapshot, report func(probe.Result)) {
	if s.Calico.Err != nil {
		report(apicheck.Unread(cluster.SeeCalicoPod(s.Calico.Err)))
		return
	}
	spec, status := cluster.CalicoContainerOf(s.Calico.Value)
	if spec == nil {
		report(probe.Found(probe.Skip, "no calico-node container to check"))
		return
	}
	budget, period, which := cluster.KillBudget(spec)
	if budget == 0 {
		report(probe.Found(probe.Info, "calico-node has no liveness or startup probe, so the kubelet never kills it for a slow start"))
		return
	}
	send := func(r probe.Result) {
		report(r.With(facts.Budget, int(budget.Seconds())).With(facts.Period, period).With(facts.BudgetProbe, which))
	}
	var last *corev1.ContainerStateTerminated
	if status != nil {
		last = status.LastTerminationState.Terminated
	}
	if last == nil || last.StartedAt.Unix() <= 0 { // a run that never started was not cut short
		send(probe.Found(probe.OK, "the %s probe allows about %s from start to first success; no run was cut short",
			which, probe.Age(budget)))
		return
	}
	lived := last.FinishedAt.Sub(last.StartedAt.Time)
	killed := last.ExitCode == exitKilled || last.ExitCode == exitTerminated || last.ExitCode == exitStopped
	// The kubelet's probe worker starts at a random point of a period, and the kill takes up to the grace period. So
	// "about" means a fifth more or less.
	late := budget*6/5 + 10*time.Second
	near := lived > budget*4/5 && lived < late
	r := probe.Found(probe.Info, "the previous container exited %d (%s) after %s; the %s probe allows about %s",
		last.ExitCode, last.Reason, probe.Age(lived), which, probe.Age(budget))
	now := status.State.Running
	ready := status.Ready && now != nil
	over := ready && s.Now.Sub(now.StartedAt.Time) > cluster.Recent
	switch {
	case !killed || !near || last.Reason == "OOMKilled" || over:
	// This container completed its start-up: its own probe shows it, or its age does. The kubelet also kills it for a dead
	// BIRD, or for a load that is already gone.
	case ready && (spec.ReadinessProbe != nil || s.Now.Sub(now.StartedAt.Time) > late):
		r.Status = probe.Warn
		r.Saw = fmt.Sprintf("the previous container was killed %s ago (exit code %d) after %s, about what the %s probe allows (%s); the new one is ready",
			probe.Age(s.Now.Sub(last.FinishedAt.Time)), last.ExitCode, probe.Age(lived), which, probe.Age(budget))
	default:
		r.Status = probe.Fail
		r.Saw = fmt.Sprintf("the previous container was killed (exit code %d) after %s, about what the %s probe allows (%s), before it answered",
			last.ExitCode, probe.Age(lived), which, probe.Age(budget))
	}
	send(r.With(facts.Lived, int(lived.Seconds())).With(facts.ExitCode, int(last.ExitCode)).With(facts.APIReason,
		last.Reason).
		With(facts.Restarts, int(status.RestartCount)).With(facts.Over, over))
}
