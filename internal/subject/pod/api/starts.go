package api

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/calico-probe/calico-probe/internal/apicheck"
	"github.com/calico-probe/calico-probe/internal/cluster"
	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/probe/facts"
)

// PodsStart reports why pods on the node wait. Pods with the same reason share one result, and reasons of the node come
// first.
func PodsStart(s *cluster.Snapshot, report func(probe.Result)) {
	if s.Placed.Pods.Err != nil {
		report(apicheck.Unread(s.Placed.Pods.Err))
		return
	}
	groups, held := grouped(s), rejections(s)
	if len(groups) == 0 && len(held) == 0 {
		report(started(s))
		return
	}
	seen := map[string]int{}
	for _, g := range groups[:min(len(groups), maxGroups)] {
		target := g.starts
		if seen[g.starts]++; seen[g.starts] > 1 {
			target += fmt.Sprintf(" %d", seen[g.starts])
		}
		report(g.result(s).On(target))
	}
	if more := len(groups) - maxGroups; more > 0 {
		report(probe.Found(probe.Info, "%s of pods that do not start", cluster.Plural(more, "more group")).On("more"))
	}
	for _, r := range slices.Concat(held, podsHistory(s)) {
		report(r)
	}
}

// started returns the result if no pod waits for long.
func started(s *cluster.Snapshot) probe.Result {
	all := cluster.Plural(len(s.Placed.Pods.Value), "pod")
	var waiting []string
	var first time.Time
	for _, w := range s.Placed.Waiting.Value {
		if s.Calico.Value != nil && w.Pod.UID == s.Calico.Value.UID && w.Pod.Name == s.Calico.Value.Name { // see calico-pod
			continue
		}
		if len(waiting) == 0 {
			first = w.Since
		}
		waiting = append(waiting, cluster.NameOf(w.Pod))
	}
	if len(waiting) == 0 {
		return probe.Found(probe.OK, "all pods on this node have started (%s)", all)
	}
	return probe.Found(probe.OK, "%d of %s on this node still starting, the first for %s: %s", len(waiting), all,
		probe.Age(s.Now.Sub(first)), cluster.Few(waiting))
}

// grouped groups pods that do not start for the same reason. Reasons of the node come before those of the pods, and
// larger groups first.
func grouped(s *cluster.Snapshot) []group {
	var out []group
	for i, w := range s.Placed.Waiting.Value {
		if s.Calico.Value != nil && w.Pod.UID == s.Calico.Value.UID && w.Pod.Name == s.Calico.Value.Name { // see calico-pod
			continue
		}
		g := reasonOf(w)
		if i >= cluster.MaxPodsWithEvents && g.starts == facts.StartsUnreported && len(out) > 0 {
			continue // its events were not read, and other pods have a known reason
		}
		g.pods = []cluster.Waiter{w}
		if at := slices.IndexFunc(out, g.sameReason); at >= 0 {
			out[at].pods = append(out[at].pods, w)
		} else {
			out = append(out, g)
		}
	}
	young := func(g group) bool { return s.Now.Sub(g.pods[0].Since) < g.patience() }
	out = slices.DeleteFunc(out, young)
	own := func(g group) int { return min(1, len(g.foreign())) }
	slices.SortStableFunc(out, func(a, b group) int {
		return cmp.Or(cmp.Compare(own(b), own(a)), cmp.Compare(len(b.pods), len(a.pods)))
	})
	return out
}

// patience is how long the oldest pod of a group must wait before the check reports it.
func (g group) patience() time.Duration {
	switch g.starts {
	case facts.StartsUnreported, facts.StartsPulling:
		return waitUnreported
	case facts.StartsVolume:
		if !mountFails.MatchString(g.message) || volumePending.MatchString(g.message) {
			return waitUnreported
		}
	case facts.StartsAddresses:
		return waitNoAddress
	}
	return waitReported
}

// mountFails matches the kubelet's messages about a volume that it failed to set up or mount. volumePending matches
// messages about a volume that another node has not released, and about a ConfigMap or Secret that the kubelet has not
// read since its start.
var (
	mountFails    = regexp.MustCompile(`^MountVolume\.SetUp failed for volume`)
	volumePending = regexp.MustCompile(`not attached|failed to sync (?:configmap|secret) cache`)
)

// foreign describes a reason outside the pods. It returns "" for a reason within the pods.
func (g group) foreign() string {
	return map[string]string{
		facts.StartsAddresses: "no address", facts.StartsCNI: "no network from the CNI plugin",
		facts.StartsNetwork: "no network: the runtime has no CNI configuration",
		facts.StartsSandbox: "no sandbox from the runtime", facts.StartsImage: "the node cannot pull the image",
		facts.StartsVolume: "a volume is not mounted", facts.StartsContainer: "no container from the runtime",
		facts.StartsUnreported: "not started, and the kubelet reports no reason",
	}[g.starts]
}

// result judges a group by the number of its pods and how long they wait.
func (g group) result(s *cluster.Snapshot) probe.Result {
	age := s.Now.Sub(g.pods[0].Since)
	r := probe.Found(probe.Warn, "%s for %s: %s", g.who(), probe.Age(age),
		cmp.Or(g.foreign(), "a problem of the pod itself"))
	switch {
	case g.starts == facts.StartsPulling:
		r = probe.Found(probe.Info, "%s for %s: pulling an image", g.who(), probe.Age(age))
		if age > waitPulling {
			r.Status = probe.Warn
		}
	case g.foreign() == "":
		r.Status = probe.Info
	case g.starts == facts.StartsVolume: // perhaps only that volume is at fault
	case g.starts == facts.StartsImage && !g.isNodeFault(s):
		r.Status = probe.Info // perhaps only the image's name is wrong
	case g.starts == facts.StartsImage && !g.hasManyImages(s):
	case g.waitsForCalico(s):
		r.Saw += " (calico-node is starting, or just became ready)"
	case g.provesNodeFault() && !g.isRefuted(s) && (g.isCorroborated(s) || age > cluster.Patience),
		g.isCorroborated(s) && (len(g.pods) > 1 || age > cluster.Patience):
		r.Status = probe.Fail
	}
	r = r.With(facts.Starts, g.starts).With(facts.Pods, len(g.pods)).With(facts.Age, int(age.Seconds())).
		With(facts.Pod, cluster.NameOf(g.pods[0].Pod))
	if g.message != "" {
		says := probe.Quoted(g.message)
		r.Saw += ": " + says + aged(g.pods, s.Now)
		r = r.With(facts.Message, says)
	}
	if silent := facts.NameServerSilent(g.message); silent != "" {
		r = r.With(facts.NoNames, silent)
	}
	if g.plugin != "" {
		r = r.With(facts.Plugin, g.plugin)
	}
	if g.isCorroborated(s) {
		r = r.With(facts.Corroborated, true)
	}
	if images, registries := g.images(); g.refusal != "" {
		r = r.With(facts.Refusal, g.refusal).With(facts.Images, images[:min(len(images), maxImages)]).
			With(facts.Registries, registries[:min(len(registries), maxImages)])
	}
	if s.Placed.Waiting.Err != nil && g.starts == facts.StartsUnreported {
		if apicheck.Failed(s.Placed.Waiting.Err) { // the reason may be within the pods
			r.Status = probe.Unknown
		}
		r.Saw += "; their events could not be read: " + probe.OneLine(s.Placed.Waiting.Err.Error())
	}
	return g.addresses(s, g.sandbox.On(r))
}

// provesNodeFault reports whether the message describes something that no pod can cause. One pod is then enough
// evidence.
func (g group) provesNodeFault() bool { return g.starts == facts.StartsNetwork || g.sandbox.OfNode() }

// isRefuted reports whether a pod of another namespace started on the node since the group's first pod began to wait.
// The group's events then cannot describe the node: anyone with the right to create events can forge them. Pods that
// started in the last four minutes always count, because a tenant can recreate a pod, which restarts its wait.
func (g group) isRefuted(s *cluster.Snapshot) bool {
	since := s.Now.Add(-2 * cluster.Patience)
	if began := g.pods[0].Since; began.Before(since) {
		since = began
	}
	network := g.starts == facts.StartsCNI || g.starts == facts.StartsNetwork || g.starts == facts.StartsAddresses
	return !g.isCorroborated(s) && slices.ContainsFunc(s.Placed.Pods.Value, func(p corev1.Pod) bool {
		return p.Namespace != g.pods[0].Pod.Namespace && p.Status.StartTime != nil &&
			p.Status.StartTime.After(since) && cluster.Begun(&p) && !(network && p.Spec.HostNetwork)
	})
}

// who lists the waiting pods of a group.
func (g group) who() string {
	var names []string
	for _, w := range g.pods {
		names = append(names, w.Pod.Namespace+"/"+w.Pod.Name)
	}
	return fmt.Sprintf("%s (%s) waiting", cluster.Plural(len(names), "pod"), cluster.Few(names))
}

// waitsForCalico reports whether it is too early to judge: calico-node is starting, or has just become ready.
func (g group) waitsForCalico(s *cluster.Snapshot) bool {
	if g.starts != facts.StartsCNI && g.starts != facts.StartsNetwork || s.Calico.Value == nil {
		return false
	}
	limit := cluster.Patience
	if cluster.PodReady(s.Calico.Value) {
		limit = waitCalico
	}
	return s.Now.Sub(cluster.ConditionOfPod(s.Calico.Value, corev1.ContainersReady).Time) < limit
}

// addresses adds IPAM's space, if pods get no address or have no reported reason.
func (g group) addresses(s *cluster.Snapshot, r probe.Result) probe.Result {
	if g.starts != facts.StartsAddresses && g.starts != facts.StartsUnreported {
		return r
	}
	v6 := aboutIPv6(s, g.message)
	room, known := roomFor(s, v6)
	if !known || room.short() == "" && g.starts == facts.StartsUnreported {
		return r
	}
	other, _ := roomFor(s, !v6)
	r.Saw += "; " + room.text(s.Node.Name)
	// A pod's annotation can request the family without a pool, and an event can be forged.
	byOne := room.short() == facts.ShortNoPool && len(other.pools) > 0 && !g.isCorroborated(s)
	if room.short() != "" && g.starts == facts.StartsAddresses && r.Status == probe.Warn && !byOne {
		r.Status = probe.Fail // the next pod gets no address either
	}
	if room.leaked > 0 {
		r.Saw += fmt.Sprintf("; %d addresses are still assigned to deleted pods", room.leaked)
	}
	family := 4
	if v6 {
		family = 6
	}
	if len(room.pools) == 0 && len(other.pools) > 0 {
		r.Saw += fmt.Sprintf("; the node has IPv%d pools (%s) but no IPv%d pool", 10-family, cluster.Few(other.pools), family)
		r = r.With(facts.OtherPools, other.pools)
	}
	if len(room.pools) == 0 && len(room.others) > 0 {
		r = r.With(facts.UnfitPools, room.others)
	}
	return r.With(facts.AddressesOfPod, family).With(facts.Short, room.short()).With(facts.Pools, room.pools).
		With(facts.Blocks, room.blocks).With(facts.BlockLimit, room.limit).With(facts.FreeHere, room.here).
		With(facts.FreeElsewhere, room.elsewhere).With(facts.FreeBlocks, room.unclaimed).
		With(facts.Reserved, room.reserved).With(facts.Leaked, room.leaked).With(facts.Borrowed, room.borrowed)
}

// reasonOf finds why a pod does not start: from a specific waiting reason of the container, or else from the last
// event.
func reasonOf(w cluster.Waiter) group {
	switch {
	case w.Reason == "InvalidImageName" || w.Reason == "ErrInvalidImageName" || w.Reason == "ErrImageNeverPull":
		return own(w)
	case probe.ImageWanting(w.Reason):
		return pullReason(w)
	case w.Unmade:
		return createReason(w)
	case w.Reason != "" && w.Reason != "ContainerCreating" && w.Reason != "PodInitializing":
		return own(w)
	case w.Last == nil:
		return group{starts: facts.StartsUnreported}
	}
	text := cluster.GeneralText(w, w.Last.Message)
	switch w.Last.Reason {
	case cluster.EventSandbox, cluster.EventCgroup:
		sandbox := facts.SandboxFailed(text)
		return group{starts: sandbox.Starts, plugin: sandbox.Plugin, message: sandbox.Message, sandbox: sandbox}
	case cluster.EventNetwork:
		return group{starts: facts.StartsNetwork, message: text}
	case cluster.EventMount, cluster.EventAttach, cluster.EventMap:
		if ownVolume.MatchString(w.Last.Message) {
			return group{starts: facts.StartsOwn, message: text}
		}
		return group{starts: facts.StartsVolume, message: text}
	case cluster.EventPulling:
		return group{starts: facts.StartsPulling}
	}
	return group{starts: facts.StartsUnreported}
}

// createReason finds why a container of a pod with a sandbox cannot be created or started. If no pod can cause the
// message, it is a runtime fault, otherwise a pod problem.
func createReason(w cluster.Waiter) group {
	says := cluster.GeneralText(w, w.Says)
	broken := facts.ContainerFailed(says)
	hangs := w.Reason == "CreateContainerError" && runtimeHangs.MatchString(facts.WithoutOwners(says))
	if broken.Obstacle == "" && !hangs {
		return own(w)
	}
	return group{starts: facts.StartsContainer, message: says, sandbox: broken}
}

func own(w cluster.Waiter) group {
	return group{starts: facts.StartsOwn, message: strings.TrimSuffix(w.Reason+": "+cluster.GeneralText(w, w.Says), ": ")}
}
