package cluster

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/probe/facts"
)

// How long a pod may take to start before something is made of it. The kubelet tries a sandbox again
// after some ten seconds, so one that fails still has failed at least twice.
const (
	settled     = 20 * time.Second // where the kubelet says what failed
	exhausted   = 10 * time.Second // where IPAM has no address, which the next try does not change
	unsaid      = time.Minute      // where it says nothing
	pullingLong = 10 * time.Minute // of an image that is on its way
	calicoFresh = time.Minute      // since calico-node became ready: pods that waited for it are tried again
	groupsMost  = 8                // groups of pods that are told apart
	imagesMost  = 8                // images and registries of one group that are named
)

// A group is the pods that do not start for one reason.
type group struct {
	starts  string // one of the words of the fact Starts
	plugin  string
	message string // without the names and numbers of one pod
	sandbox facts.Sandbox
	refusal string // of a registry
	pods    []waiter
}

func podsStart(s *Snapshot, report func(probe.Result)) {
	if s.placed.pods.Err != nil {
		report(unread(s.placed.pods.Err))
		return
	}
	groups, held := grouped(s), refusals(s)
	if len(groups) == 0 && len(held) == 0 {
		report(s.started())
		return
	}
	seen := map[string]int{}
	for _, g := range groups[:min(len(groups), groupsMost)] {
		target := g.starts
		if seen[g.starts]++; seen[g.starts] > 1 {
			target += fmt.Sprintf(" %d", seen[g.starts])
		}
		report(g.result(s).On(target))
	}
	if more := len(groups) - groupsMost; more > 0 {
		report(probe.Found(probe.Info, "%s more of pods that do not start", plural(more, "group")).On("more"))
	}
	for _, r := range slices.Concat(held, s.podsHistory()) {
		report(r)
	}
}

// started is the answer where no pod waits for long.
func (s *Snapshot) started() probe.Result {
	all := plural(len(s.placed.pods.Value), "pod")
	var waiting []string
	var first time.Time
	for _, w := range s.placed.waiting.Value {
		if s.Calico.Value != nil && w.pod.UID == s.Calico.Value.UID && w.pod.Name == s.Calico.Value.Name { // see calico-pod
			continue
		}
		if len(waiting) == 0 {
			first = w.since
		}
		waiting = append(waiting, nameOf(w.pod))
	}
	if len(waiting) == 0 {
		return probe.Found(probe.OK, "all pods that are bound to the node have started; %s in all", all)
	}
	return probe.Found(probe.OK, "of %s bound to the node %d are starting, the first for %s: %s", all, len(waiting),
		probe.Age(s.Now.Sub(first)), few(waiting))
}

// grouped puts pods together that do not start for the same reason, those of the node before the
// pods' own, and then the largest first.
func grouped(s *Snapshot) []group {
	var out []group
	for i, w := range s.placed.waiting.Value {
		if s.Calico.Value != nil && w.pod.UID == s.Calico.Value.UID && w.pod.Name == s.Calico.Value.Name { // see calico-pod
			continue
		}
		g := reasonOf(w)
		if i >= eventsAsked && g.starts == facts.StartsUnsaid && len(out) > 0 {
			continue // its events were not read; those of others were, and tell
		}
		g.pods = []waiter{w}
		if at := slices.IndexFunc(out, g.sameReason); at >= 0 {
			out[at].pods = append(out[at].pods, w)
		} else {
			out = append(out, g)
		}
	}
	young := func(g group) bool { return s.Now.Sub(g.pods[0].since) < g.patience() }
	out = slices.DeleteFunc(out, young)
	own := func(g group) int { return min(1, len(g.foreign())) }
	slices.SortStableFunc(out, func(a, b group) int {
		return cmp.Or(cmp.Compare(own(b), own(a)), cmp.Compare(len(b.pods), len(a.pods)))
	})
	return out
}

// patience is how long the oldest of a group has to wait before something is made of it.
func (g group) patience() time.Duration {
	switch g.starts {
	case facts.StartsUnsaid, facts.StartsPulling:
		return unsaid
	case facts.StartsVolume:
		if !mountFails.MatchString(g.message) || onItsWay.MatchString(g.message) {
			return unsaid
		}
	case facts.StartsAddresses:
		return exhausted
	}
	return settled
}

// mountFails is how the kubelet says that it tried to make or mount a volume; onItsWay are its words for one that has
// yet to come from another node, and for a ConfigMap or Secret that it has yet to read after its own start.
var (
	mountFails = regexp.MustCompile(`^MountVolume\.SetUp failed for volume`)
	onItsWay   = regexp.MustCompile(`not attached|failed to sync (?:configmap|secret) cache`)
)

// foreign is "" for what is the pods' own matter, and else what keeps them from starting in words.
func (g group) foreign() string {
	return map[string]string{
		facts.StartsAddresses: "get no address", facts.StartsCNI: "get no network from the CNI plugin",
		facts.StartsNetwork: "get no network: the runtime has no configuration of one",
		facts.StartsSandbox: "get no sandbox from the runtime", facts.StartsImage: "wait for images that the node cannot pull",
		facts.StartsVolume: "wait for a volume", facts.StartsContainer: "get no container from the runtime",
		facts.StartsUnsaid: "have not been begun, and the kubelet does not say why",
	}[g.starts]
}

// result judges a group by how many pods it has and how long they wait.
func (g group) result(s *Snapshot) probe.Result {
	age := s.Now.Sub(g.pods[0].since)
	r := probe.Found(probe.Warn, "%s for %s: %s", g.who(), probe.Age(age), cmp.Or(g.foreign(), "do not start, for a reason of their own"))
	switch {
	case g.starts == facts.StartsPulling:
		r = probe.Found(probe.Info, "%s for %s: an image is being pulled", g.who(), probe.Age(age))
		if age > pullingLong {
			r.Status = probe.Warn
		}
	case g.foreign() == "":
		r.Status = probe.Info
	case g.starts == facts.StartsVolume: // it may be that volume alone
	case g.starts == facts.StartsImage && !g.ofTheNode(s):
		r.Status = probe.Info // it may be that image's name alone
	case g.starts == facts.StartsImage && !g.manyImages(s):
	case g.waitsForCalico(s):
		r.Saw += " (calico-node itself has just come up, or is about to)"
	case g.nodes() && !g.refuted(s) && (g.corroborated(s) || age > patience),
		g.corroborated(s) && (len(g.pods) > 1 || age > patience):
		r.Status = probe.Fail
	}
	r = r.With(facts.Starts, g.starts).With(facts.Pods, len(g.pods)).With(facts.Age, int(age.Seconds())).
		With(facts.Pod, nameOf(g.pods[0].pod))
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
	if g.corroborated(s) {
		r = r.With(facts.Corroborated, true)
	}
	if images, registries := g.images(); g.refusal != "" {
		r = r.With(facts.Refusal, g.refusal).With(facts.Images, images[:min(len(images), imagesMost)]).
			With(facts.Registries, registries[:min(len(registries), imagesMost)])
	}
	if s.placed.waiting.Err != nil && g.starts == facts.StartsUnsaid {
		if failed(s.placed.waiting.Err) { // the reason may be the pods' own
			r.Status = probe.Unknown
		}
		r.Saw += "; their events could not be read: " + probe.OneLine(s.placed.waiting.Err.Error())
	}
	return g.addresses(s, g.sandbox.On(r))
}

// nodes reports whether the message names what no pod can cause: then one pod says enough.
func (g group) nodes() bool { return g.starts == facts.StartsNetwork || g.sandbox.OfNode() }

// refuted reports whether a pod of another namespace started on the node since shortly before the first of the group
// began to wait. Then the group's events are not true of the node: anybody who may create events can forge them. The
// time before counts because a tenant can delete and recreate a pod, and its wait begins again.
func (g group) refuted(s *Snapshot) bool {
	since := g.pods[0].since.Add(-patience)
	network := g.starts == facts.StartsCNI || g.starts == facts.StartsNetwork || g.starts == facts.StartsAddresses
	return !g.corroborated(s) && slices.ContainsFunc(s.placed.pods.Value, func(p corev1.Pod) bool {
		return p.Namespace != g.pods[0].pod.Namespace && p.Status.StartTime != nil &&
			p.Status.StartTime.After(since) && begun(&p) && !(network && p.Spec.HostNetwork)
	})
}

// corroborated reports whether no single tenant can have caused what is said of a group: its pods are of two
// namespaces, or of one of the cluster's own.
func (g group) corroborated(s *Snapshot) bool {
	return corroborated(s, g.pods, func(w waiter) string { return w.pod.Namespace })
}

func corroborated[T any](s *Snapshot, pods []T, namespace func(T) string) bool {
	first := namespace(pods[0])
	return slices.ContainsFunc(pods, func(p T) bool {
		of := namespace(p)
		return of != first || of == metav1.NamespaceSystem || slices.Contains(s.calicoIn, of)
	})
}

// who names the pods of a group.
func (g group) who() string {
	var names []string
	for _, w := range g.pods {
		names = append(names, w.pod.Namespace+"/"+w.pod.Name)
	}
	if len(names) == 1 {
		return "1 pod (" + few(names) + ") waits"
	}
	return fmt.Sprintf("%d pods (%s) wait", len(names), few(names))
}

// waitsForCalico tells whether it is too early: calico-node is starting, or has just begun to serve.
func (g group) waitsForCalico(s *Snapshot) bool {
	if g.starts != facts.StartsCNI && g.starts != facts.StartsNetwork || s.Calico.Value == nil {
		return false
	}
	limit := patience
	if podReady(s.Calico.Value) {
		limit = calicoFresh
	}
	return s.Now.Sub(conditionOfPod(s.Calico.Value, corev1.ContainersReady).Time) < limit
}

// addresses adds what IPAM has, where pods get no address, or nobody says why they do not start.
func (g group) addresses(s *Snapshot, r probe.Result) probe.Result {
	if g.starts != facts.StartsAddresses && g.starts != facts.StartsUnsaid {
		return r
	}
	v6 := aboutIPv6(s, g.message)
	room, known := roomFor(s, v6)
	if !known || room.short() == "" && g.starts == facts.StartsUnsaid {
		return r
	}
	other, _ := roomFor(s, !v6)
	r.Saw += "; " + room.text(s.Node.Name)
	// A pod's annotation can request the family without a pool, and a forged event too.
	byOne := room.short() == facts.ShortNoPool && len(other.pools) > 0 && !g.corroborated(s)
	if room.short() != "" && g.starts == facts.StartsAddresses && r.Status == probe.Warn && !byOne {
		r.Status = probe.Fail // the next pod gets none either
	}
	if room.leaked > 0 {
		r.Saw += fmt.Sprintf("; %d are kept for pods that are gone", room.leaked)
	}
	family := 4
	if v6 {
		family = 6
	}
	if len(room.pools) == 0 && len(other.pools) > 0 {
		r.Saw += fmt.Sprintf("; it has IPv%d pools (%s) and no IPv%d pool", 10-family, few(other.pools), family)
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

// reasonOf says what keeps a pod from starting: the container's own state where that has got so
// far, else the last event.
func reasonOf(w waiter) group {
	switch {
	case w.reason == "InvalidImageName" || w.reason == "ErrInvalidImageName" || w.reason == "ErrImageNeverPull":
		return own(w)
	case probe.ImageWanting(w.reason):
		return unpulled(w)
	case w.unmade:
		return uncreated(w)
	case w.reason != "" && w.reason != "ContainerCreating" && w.reason != "PodInitializing":
		return own(w)
	case w.last == nil:
		return group{starts: facts.StartsUnsaid}
	}
	text := general(w, w.last.Message)
	switch w.last.Reason {
	case eventSandbox, eventCgroup:
		sandbox := facts.SandboxFailed(text)
		return group{starts: sandbox.Starts, plugin: sandbox.Plugin, message: sandbox.Message, sandbox: sandbox}
	case eventNetwork:
		return group{starts: facts.StartsNetwork, message: text}
	case eventMount, eventAttach, eventMap:
		if volumeOwn.MatchString(w.last.Message) {
			return group{starts: facts.StartsOwn, message: text}
		}
		return group{starts: facts.StartsVolume, message: text}
	case eventPulling:
		return group{starts: facts.StartsPulling}
	}
	return group{starts: facts.StartsUnsaid}
}

// uncreated is a pod with a sandbox of which the runtime makes or starts a container not: for a reason of its
// own, where it says one of those that no pod can make, or else for one of the pod's.
func uncreated(w waiter) group {
	says := general(w, w.says)
	broken := facts.ContainerFailed(says)
	hangs := w.reason == "CreateContainerError" && runtimeHangs.MatchString(facts.WithoutOwners(says))
	if broken.Obstacle == "" && !hangs {
		return own(w)
	}
	return group{starts: facts.StartsContainer, message: says, sandbox: broken}
}

func own(w waiter) group {
	return group{starts: facts.StartsOwn, message: strings.TrimSuffix(w.reason+": "+general(w, w.says), ": ")}
}

// What the kubelet's and the runtime's other messages are told apart by.
var (
	runtimeHangs = regexp.MustCompile(`deadline exceeded|is reserved for|no space left|failed to create shim`)
	diskFull     = regexp.MustCompile(`no space left on device`)
	volumeOwn    = regexp.MustCompile(`(configmap|secret|persistentvolumeclaim) .*not found|references non-existent`)
)

// longestEvent bounds, in bytes, what is read of a message; the kubelet and the API server cut theirs
// far before.
const longestEvent = 16 << 10

// general is a message without what differs between pods of one group: their names, the IDs of
// sandboxes and containers, addresses in them and times.
func general(w waiter, text string) string {
	text = probe.OneLine(text[:min(len(text), longestEvent)])
	uid := string(w.pod.UID)
	for _, name := range []string{w.pod.Namespace + "/" + w.pod.Name, w.pod.Name, uid,
		strings.ReplaceAll(uid, "-", "_")} { // as a slice of systemd's has it
		if len(name) > 3 {
			text = strings.ReplaceAll(text, name, "POD")
		}
	}
	for _, x := range idsIn {
		text = x.find.ReplaceAllString(text, x.with)
	}
	return text
}

var idsIn = []struct {
	find *regexp.Regexp
	with string
}{
	{regexp.MustCompile(` ?"[0-9a-f]{12,64}"`), ""},
	{regexp.MustCompile(`\b[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\b`), "ID"},
	{regexp.MustCompile(`\b[0-9a-f]{24,64}\b`), "ID"},
	{regexp.MustCompile(`POD(_POD)?_[\w-]+`), "POD"},
	{regexp.MustCompile(`(\d+\.\d+\.\d+\.\d+|\]):\d{5}->`), "$1->"},
	{regexp.MustCompile(`back-off \S+ `), ""},
}
