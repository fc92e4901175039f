package cluster

import (
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/probe/facts"
)

const (
	endsLate  = time.Minute // after its grace: the kubelet kills by then, and unmounts within seconds
	endsAsked = 6           // pods whose events are read, those that are late longest
)

// endings are the pods that shall end, those that are due longest first. One with a finalizer may have ended
// on the node long ago, and waits for somebody else.
func endings(pods []corev1.Pod) []waiter {
	var out []waiter
	for i := range pods {
		p := &pods[i]
		if p.DeletionTimestamp == nil || len(p.Finalizers) > 0 || p.Labels[labelOfProbes] == nameOfProbes {
			continue
		}
		out = append(out, waiter{pod: p, since: p.DeletionTimestamp.Time}) // which has the grace in it
	}
	slices.SortStableFunc(out, func(a, b waiter) int { return a.since.Compare(b.since) })
	return out
}

// killWord is the kubelet's last event about a pod that it could not end.
func killWord(events []corev1.Event, node string) *corev1.Event {
	var last *corev1.Event
	for i := range events {
		e := &events[i]
		if e.Reason == facts.EventKill && fromKubelet(e, node) && (last == nil || !eventTime(e).Before(eventTime(last))) {
			last = e
		}
	}
	return last
}

// unended is the pods that do not end for one reason.
type unended struct {
	facts.FailedKill
	pods []waiter
}

func podsEnd(s *Snapshot, report func(probe.Result)) {
	if s.placed.pods.Err != nil {
		report(unread(s.placed.pods.Err))
		return
	}
	late := slices.DeleteFunc(slices.Clone(s.placed.ending.Value),
		func(w waiter) bool { return s.Now.Sub(w.since) < endsLate })
	switch {
	case len(late) == 0:
		report(probe.Found(probe.OK, "no pods stuck terminating; %s terminating", plural(len(s.placed.ending.Value), "pod")))
		return
	case KubeletSilent(s):
		report(probe.Found(probe.Unknown, "%s shall end, and the kubelet is silent: see node-lease", plural(len(late), "pod")))
		return
	}
	var groups []unended
	for _, w := range late {
		u := unendedFor(w)
		i := slices.IndexFunc(groups, func(o unended) bool { return o.FailedKill == u.FailedKill })
		if i < 0 {
			groups = append(groups, u)
			continue
		}
		groups[i].pods = append(groups[i].pods, w)
	}
	seen := map[string]bool{}
	for _, u := range groups[:min(len(groups), groupsMost)] {
		if r := u.result(s); !seen[u.EndsNot] { // more of one kind differ in words alone
			seen[u.EndsNot] = true
			report(r.On(u.EndsNot))
		}
	}
}

// unendedFor is what keeps a pod from ending, by the kubelet's last event, or by what of the pod still runs.
func unendedFor(w waiter) unended {
	u := unended{pods: []waiter{w}}
	all := slices.Concat(w.pod.Status.ContainerStatuses, w.pod.Status.InitContainerStatuses)
	runs := func(c corev1.ContainerStatus) bool { return c.State.Terminated == nil && c.State.Waiting == nil }
	switch {
	case w.last != nil:
		u.FailedKill = facts.KillFailed(w.last.Message[:min(len(w.last.Message), longestEvent)])
		u.Message = general(w, u.Message)
	case len(all) > 0 && !slices.ContainsFunc(all, runs):
		u.EndsNot = facts.EndsNotClean
	default:
		u.EndsNot = facts.EndsNotUnsaid
	}
	return u
}

// result judges such a group. Where nobody says why, a container may only be slow.
func (u unended) result(s *Snapshot) probe.Result {
	age := s.Now.Sub(u.pods[0].since)
	why := map[string]string{
		facts.EndsNotCNI: "the CNI plugin does not remove the network", facts.EndsNotRuntime: "the runtime does not stop them",
		facts.EndsNotClean:  "their containers have ended, and the kubelet is not done with their volumes or cgroups",
		facts.EndsNotUnsaid: "their containers run on, and the kubelet does not say why",
	}[u.EndsNot]
	var names []string
	for _, w := range u.pods {
		names = append(names, w.pod.Namespace+"/"+w.pod.Name)
	}
	g := group{pods: u.pods}
	r := probe.Found(probe.Warn, "%s (%s) should have ended %s ago: %s", plural(len(names), "pod"), few(names),
		probe.Age(age), why)
	said := u.EndsNot == facts.EndsNotCNI || u.EndsNot == facts.EndsNotRuntime
	if said && age > patience && g.corroborated(s) {
		r.Status = probe.Fail
	}
	r = r.With(facts.EndsNot, u.EndsNot).With(facts.Pods, len(u.pods)).With(facts.Age, int(age.Seconds())).
		With(facts.Pod, nameOf(u.pods[0].pod))
	if u.Message != "" {
		says := probe.Quoted(u.Message)
		r.Saw += ": " + says + aged(u.pods, s.Now)
		r = r.With(facts.Message, says)
	}
	if u.Lacks != "" {
		r = r.With(facts.EndLacks, u.Lacks)
	}
	if u.Plugin != "" {
		r = r.With(facts.Plugin, u.Plugin)
	}
	if g.corroborated(s) {
		r = r.With(facts.Corroborated, true)
	}
	if err := s.placed.ending.Err; err != nil && u.Message == "" {
		if failed(err) {
			r.Status = probe.Unknown
		}
		r.Saw += "; their events could not be read: " + probe.OneLine(err.Error())
	}
	return r
}
