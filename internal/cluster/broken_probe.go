package cluster

import (
	"regexp"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/probe/facts"
)

// BrokenProbe is a probe or hook that cannot succeed, because its command is missing or does not support one of its
// flags.
type BrokenProbe struct {
	container string
	kind      string // one of the Probe words of package facts
	says      string // the kubelet's message, quoted
	at        time.Time
}

var (
	// cannotWork matches messages of os/exec and the OCI runtimes about a missing program, and messages of pflag and
	// flag about an unknown flag. These failures do not depend on the container's state.
	cannotWork = regexp.MustCompile(`fork/exec \S+: no such file or directory|exec: "[^"]+": (?:stat \S+: no such file or directory|executable file not found)|` +
		`unknown (?:shorthand )?flag\b|flag provided but not defined|unknown command "`)
	probeOfEvent = regexp.MustCompile(`^(Liveness|Readiness|Startup) probe (?:failed|errored)`)
	// containerOfEvent matches a container in the involvedObject.fieldPath of a kubelet event.
	containerOfEvent = regexp.MustCompile(`^spec\.containers\{([a-z0-9-]+)\}$`)
)

var probeKinds = map[string]string{"Liveness": facts.ProbeLiveness, "Readiness": facts.ProbeReadiness,
	"Startup": facts.ProbeStartup}

// BrokenIn returns the broken probe or hook from the kubelet's last event about one, or nil if there is no such event.
func BrokenIn(events []corev1.Event, node string) *BrokenProbe {
	var out *BrokenProbe
	for i := range events {
		e := &events[i]
		of := containerOfEvent.FindStringSubmatch(e.InvolvedObject.FieldPath)
		text := e.Message[:min(len(e.Message), LongestEvent)]
		if of == nil || !fromKubelet(e, node) || !cannotWork.MatchString(text) {
			continue
		}
		b := BrokenProbe{container: of[1], says: probe.Quoted(text), at: eventTime(e)}
		if m := probeOfEvent.FindStringSubmatch(text); m != nil && e.Reason == "Unhealthy" {
			b.kind = probeKinds[m[1]]
		} else if e.Reason == "FailedPostStartHook" {
			b.kind = facts.ProbePostStart
		}
		if b.kind != "" && (out == nil || !b.at.Before(out.at)) {
			out = &b
		}
	}
	return out
}

// explains reports whether a broken probe concerns a container's current run, or ended the previous run. An older event
// is history.
func (b *BrokenProbe) explains(c corev1.ContainerStatus, now time.Time) bool {
	if b == nil || b.container != c.Name {
		return false
	}
	if run := c.State.Running; run != nil && !b.at.Before(run.StartedAt.Time) {
		return true
	}
	last := c.LastTerminationState.Terminated
	return last != nil && !b.at.Before(last.StartedAt.Time) && now.Sub(last.FinishedAt.Time) < Recent
}

// killLoop is the number of restarts from which a container counts as killed in a loop.
const killLoop = 2

// On adds a broken probe to the result about its container. A container that is killed in a loop is a fault.
func (b *BrokenProbe) On(r probe.Result, c corev1.ContainerStatus, now time.Time) probe.Result {
	if !b.explains(c, now) || r.Status == probe.OK {
		return r
	}
	if b.kind != facts.ProbeReadiness && c.RestartCount >= killLoop {
		r.Status = probe.Fail
	}
	r.Saw += "; the kubelet, " + probe.Age(max(0, now.Sub(b.at))) + " ago: " + b.says
	return r.With(facts.BrokenProbe, b.kind).With(facts.ProbeSays, b.says).With(facts.Container, c.Name)
}

// restartedLately reports whether a container of a pod restarted recently.
func restartedLately(p *corev1.Pod, now time.Time) bool {
	for _, c := range p.Status.ContainerStatuses {
		if c.RestartCount > 0 && (c.State.Running == nil || now.Sub(c.State.Running.StartedAt.Time) < Recent) {
			return true
		}
	}
	return false
}
