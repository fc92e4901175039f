package api

import (
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/calico-probe/calico-probe/internal/apicheck"
	"github.com/calico-probe/calico-probe/internal/cluster"
	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/probe/facts"
)

// stuckGroup has pods that cannot terminate for the same reason.
type stuckGroup struct {
	facts.FailedKill
	pods []cluster.Waiter
}

func podsEnd(s *cluster.Snapshot, report func(probe.Result)) {
	if s.Placed.Pods.Err != nil {
		report(apicheck.Unread(s.Placed.Pods.Err))
		return
	}
	late := slices.DeleteFunc(slices.Clone(s.Placed.Ending.Value),
		func(w cluster.Waiter) bool { return s.Now.Sub(w.Since) < cluster.EndsLate })
	switch {
	case len(late) == 0:
		report(probe.Found(probe.OK, "no pods stuck terminating; %s terminating", cluster.Plural(len(s.Placed.Ending.Value), "pod")))
		return
	case cluster.KubeletSilent(s):
		report(probe.Found(probe.Unknown, "%s stuck terminating, and the kubelet is silent: see node-lease", cluster.Plural(len(late), "pod")))
		return
	}
	var groups []stuckGroup
	for _, w := range late {
		u := stuckReason(w)
		i := slices.IndexFunc(groups, func(o stuckGroup) bool { return o.FailedKill == u.FailedKill })
		if i < 0 {
			groups = append(groups, u)
			continue
		}
		groups[i].pods = append(groups[i].pods, w)
	}
	seen := map[string]bool{}
	for _, u := range groups[:min(len(groups), maxGroups)] {
		if r := u.result(s); !seen[u.EndsNot] { // other groups of this kind differ only in the message
			seen[u.EndsNot] = true
			report(r.On(u.EndsNot))
		}
	}
}

// stuckReason finds why a pod does not terminate: from the kubelet's last event, or else from its containers' states.
func stuckReason(w cluster.Waiter) stuckGroup {
	u := stuckGroup{pods: []cluster.Waiter{w}}
	all := slices.Concat(w.Pod.Status.ContainerStatuses, w.Pod.Status.InitContainerStatuses)
	runs := func(c corev1.ContainerStatus) bool { return c.State.Terminated == nil && c.State.Waiting == nil }
	switch {
	case w.Last != nil:
		u.FailedKill = facts.KillFailed(w.Last.Message[:min(len(w.Last.Message), cluster.LongestEvent)])
		u.Message = cluster.GeneralText(w, u.Message)
	case len(all) > 0 && !slices.ContainsFunc(all, runs):
		u.EndsNot = facts.EndsNotClean
	default:
		u.EndsNot = facts.EndsNotUnreported
	}
	return u
}

// result judges a group. It fails only with a reported reason: without one, a container may just be slow to stop.
func (u stuckGroup) result(s *cluster.Snapshot) probe.Result {
	age := s.Now.Sub(u.pods[0].Since)
	reason := map[string]string{
		facts.EndsNotCNI: "the CNI plugin does not remove the network", facts.EndsNotRuntime: "the runtime does not stop them",
		facts.EndsNotClean:      "their containers exited, but the kubelet has not cleaned up their volumes or cgroups",
		facts.EndsNotUnreported: "their containers still run, and the kubelet reports no reason",
	}[u.EndsNot]
	var names []string
	for _, w := range u.pods {
		names = append(names, w.Pod.Namespace+"/"+w.Pod.Name)
	}
	g := group{pods: u.pods}
	r := probe.Found(probe.Warn, "%s (%s) should have terminated %s ago: %s", cluster.Plural(len(names), "pod"), cluster.Few(names),
		probe.Age(age), reason)
	hasReason := u.EndsNot == facts.EndsNotCNI || u.EndsNot == facts.EndsNotRuntime
	if hasReason && age > cluster.Patience && g.isCorroborated(s) {
		r.Status = probe.Fail
	}
	r = r.With(facts.EndsNot, u.EndsNot).With(facts.Pods, len(u.pods)).With(facts.Age, int(age.Seconds())).
		With(facts.Pod, cluster.NameOf(u.pods[0].Pod))
	if u.Message != "" {
		text := probe.Quoted(u.Message)
		r.Saw += ": " + text + aged(u.pods, s.Now)
		r = r.With(facts.Message, text)
	}
	if u.Lacks != "" {
		r = r.With(facts.EndLacks, u.Lacks)
	}
	if u.Plugin != "" {
		r = r.With(facts.Plugin, u.Plugin)
	}
	if g.isCorroborated(s) {
		r = r.With(facts.Corroborated, true)
	}
	if err := s.Placed.Ending.Err; err != nil && u.Message == "" {
		if apicheck.Failed(err) {
			r.Status = probe.Unknown
		}
		r.Saw += "; their events could not be read: " + probe.OneLine(err.Error())
	}
	return r
}
