package cluster

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/probe/facts"
)

// hanging is a pod bound to the node for a while, whose container waits for a reason.
func hanging(name string, age time.Duration, reason, says string) corev1.Pod {
	p := corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, UID: types.UID(name + "-uid")}}
	p.CreationTimestamp = ago(age)
	p.Status.Phase = corev1.PodPending
	p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionTrue,
		LastTransitionTime: ago(age)}}
	p.Spec.Containers = []corev1.Container{{Name: "c", Image: name + ".example:5000/app:1"}}
	if reason != "" {
		p.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "c",
			State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: reason, Message: says}}}}
	}
	return p
}

// placedOn gives a snapshot of a node with these pods, and one event for each of a text.
func placedOn(reason, text string, pods ...corev1.Pod) *Snapshot {
	s := snapshot(node("node-a", "10.0.0.1", "10.0.0.1/24"))
	s.placed.pods.Value = pods
	for i := range pods {
		if w, ok := waits(&pods[i]); ok {
			if reason != "" {
				w.last = &corev1.Event{Reason: reason, Message: strings.ReplaceAll(text, "ID64", fmt.Sprintf("%064x", i+1))}
			}
			s.placed.waiting.Value = append(s.placed.waiting.Value, w)
		}
	}
	return s
}

// What real kubelets wrote: of Calico v3.32.1 with containerd, and older ones.
const (
	saidSandbox = `Failed to create pod sandbox: rpc error: code = Unknown desc = failed to setup network for sandbox "ID64": `
	saidFull    = saidSandbox + `plugin type="calico" failed (add): failed to request IPv4 addresses: Assigned 0 out of 1 requested IPv4 addresses; No IPs available in pools: [10.245.0.0/29]`
	saidToken   = saidSandbox + `plugin type="calico" failed (add): error getting ClusterInformation: connection is unauthorized: Unauthorized`
	saidDocker  = `Failed to create pod sandbox: rpc error: code = Unknown desc = failed to set up sandbox container "ID64" network for pod "app": networkPlugin cni failed to set up pod "app_default" network: stat /var/lib/calico/nodename: no such file or directory`
	saidNoCNI   = `network is not ready: container runtime network not ready: NetworkReady=false reason:NetworkPluginNotReady message:Network plugin returns error: cni plugin not initialized`
)

func TestPodsStart(t *testing.T) {
	creating := func(n int, age time.Duration) []corev1.Pod {
		var out []corev1.Pod
		for i := range n {
			out = append(out, hanging(fmt.Sprintf("app-%d", i), age, "ContainerCreating", ""))
		}
		if n > 1 {
			out[n-1].Namespace = "team-b" // of one namespace alone: TestOneTenant
		}
		return out
	}
	away := `failed to do request: Head "https://x": dial tcp 10.9.9.9:443: i/o timeout`
	one := func(reason string, change func(*corev1.Pod)) []corev1.Pod {
		p := hanging("a", time.Hour, reason, "")
		change(&p)
		return []corev1.Pod{p}
	}
	wants := func(names ...string) []corev1.Pod {
		var out []corev1.Pod
		for _, name := range names {
			out = append(out, hanging(name, time.Hour, "ErrImagePull", away))
		}
		return out
	}
	runs := corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}
	running := hanging("well", time.Hour, "", "")
	running.Status.ContainerStatuses = []corev1.ContainerStatus{{State: runs}}
	for name, c := range map[string]struct {
		event, text string
		pods        []corev1.Pod
		status      probe.Status
		starts      string
		saw         string
	}{
		"all run":          {"", "", []corev1.Pod{running}, probe.OK, "", "1 pod in all"},
		"just young":       {eventSandbox, saidToken, creating(5, 19*time.Second), probe.OK, "", ""},
		"young and unsaid": {"", "", creating(5, 50*time.Second), probe.OK, "", ""},
		"no address":       {eventSandbox, saidFull, creating(10, 44*time.Second), probe.Fail, facts.StartsAddresses, "10 pods (default/app-0, default/app-1, default/app-2 and 7 more) wait for 44s: get no address: failed to setup network for sandbox: plugin"},
		"one, of the node's": {eventSandbox, saidToken, creating(1, 3*time.Minute), probe.Fail, facts.StartsCNI,
			"Unauthorized"},
		"one, lately":      {eventSandbox, saidDocker, creating(1, 44*time.Second), probe.Warn, facts.StartsCNI, "nodename"},
		"dockershim":       {eventSandbox, saidDocker, creating(2, 3*time.Minute), probe.Fail, facts.StartsCNI, "nodename"},
		"no configuration": {eventNetwork, saidNoCNI, creating(2, 3*time.Minute), probe.Fail, facts.StartsNetwork, ""},
		"the runtime":      {eventSandbox, `Failed to create pod sandbox: rpc error: code = DeadlineExceeded desc = context deadline exceeded`, creating(2, 3*time.Minute), probe.Fail, facts.StartsSandbox, "deadline"},
		"no pause image": {eventSandbox, `Failed to create pod sandbox: rpc error: code = Unknown desc = failed to pull image "registry.k8s.io/pause:3.10": dial tcp: i/o timeout`,
			creating(2, 3*time.Minute), probe.Fail, facts.StartsSandbox, "failed to pull image"},
		"no cgroup of the pod": {eventCgroup, `unable to ensure pod container exists: failed to create container for [kubepods besteffort poda-uid] : mkdir /sys/fs/cgroup/memory/kubepods/besteffort/poda-uid: cannot allocate memory`,
			creating(2, 3*time.Minute), probe.Fail, facts.StartsSandbox, "from the runtime: failed to create container for"},
		"nobody says": {"", "", creating(2, 3*time.Minute), probe.Fail, facts.StartsUnsaid, "does not say why"},
		"not begun":   {"", "", []corev1.Pod{hanging("a", 3*time.Minute, "", "")}, probe.Warn, facts.StartsUnsaid, ""},
		"pulling": {eventPulling, `Pulling image "x"`, creating(2, 3*time.Minute),
			probe.Info, facts.StartsPulling, ""},
		"no such image":  {"", "", []corev1.Pod{hanging("a", time.Hour, "ImagePullBackOff", `Back-off pulling image "a": not found`)}, probe.Info, facts.StartsOwn, ""},
		"one registry":   {"", "", wants("a", "a"), probe.Info, facts.StartsImage, ""},
		"all registries": {"", "", wants("a", "b"), probe.Warn, facts.StartsImage, "cannot pull"},
		"no ConfigMap":   {eventMount, `MountVolume.SetUp failed for volume "config" : configmap "app" not found`, creating(3, time.Hour), probe.Info, facts.StartsOwn, ""},
		"no key": {"", "", []corev1.Pod{hanging("a", time.Hour, "CreateContainerConfigError",
			`configmap "x" not found`)}, probe.Info, facts.StartsOwn, ""},
		"crash loop": {"", "", []corev1.Pod{hanging("a", time.Hour, "CrashLoopBackOff", "back-off 5m0s restarting failed container=c pod=a_default(a-uid)")}, probe.Info, facts.StartsOwn, "CrashLoopBackOff: restarting"},
		"a volume":   {eventAttach, `Multi-Attach error for volume "pvc-1" Volume is already used by pod(s) b`, creating(3, time.Hour), probe.Warn, facts.StartsVolume, ""},
		"being deleted": {"", "", one("ContainerCreating", func(p *corev1.Pod) { p.DeletionTimestamp = new(ago(0)) }),
			probe.OK, "", ""},
		"the probe's own": {"", "", one("ContainerCreating", func(p *corev1.Pod) {
			p.Labels = map[string]string{labelOfProbes: nameOfProbes}
		}), probe.OK, "", ""},
		"a host is back": {"", "", one("ContainerCreating", func(p *corev1.Pod) {
			p.Status.Conditions = append(p.Status.Conditions, corev1.PodCondition{Type: corev1.ContainersReady,
				LastTransitionTime: ago(50 * time.Second)})
		}), probe.OK, "", ""},
		"init is at work": {"", "", one("PodInitializing", func(p *corev1.Pod) {
			p.Status.InitContainerStatuses = []corev1.ContainerStatus{{State: runs}}
		}), probe.OK, "", ""},
		"init has no image": {"", "", one("PodInitializing", func(p *corev1.Pod) {
			p.Status.InitContainerStatuses = []corev1.ContainerStatus{{State: corev1.ContainerState{
				Waiting: &corev1.ContainerStateWaiting{Reason: "ImagePullBackOff"}}}}
		}), probe.Info, facts.StartsOwn, ""},
	} {
		t.Run(name, func(t *testing.T) {
			got := ask(t, placedOn(c.event, c.text, c.pods...), facts.CheckPodsStart)
			wantFirst(t, got, c.status, c.saw)
			if starts := got[0].Facts.Str(facts.Starts); starts != c.starts || len(got) != 1 {
				t.Errorf("%d groups, the first for %q, want %q: %v", len(got), starts, c.starts, got)
			}
		})
	}
}

// TestPodsStartBesideCalico wants less said of a node whose calico-node has just come up.
func TestPodsStartBesideCalico(t *testing.T) {
	s := placedOn(eventSandbox, saidDocker, hanging("a", time.Hour, "ContainerCreating", ""),
		hanging("b", time.Hour, "ContainerCreating", ""))
	s.Calico.Value = calico(3)
	s.Calico.Value.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue},
		{Type: corev1.ContainersReady, Status: corev1.ConditionTrue, LastTransitionTime: ago(20 * time.Second)}}
	wantFirst(t, ask(t, s, facts.CheckPodsStart), probe.Warn, "just come up")
	s.Calico.Value.Status.Conditions[1].LastTransitionTime = ago(2 * time.Minute)
	wantFirst(t, ask(t, s, facts.CheckPodsStart), probe.Fail, "nodename")
}

// fullPool is the recorded one: the only enabled pool is a /29 with one block, all of it given away.
func fullPool(s *Snapshot, change func(pool, block, config map[string]any)) {
	var given []any
	attributes := []any{}
	for i := range 8 {
		given = append(given, int64(i))
		attributes = append(attributes, map[string]any{"secondary": map[string]any{
			"node": "node-a", "namespace": "default", "pod": fmt.Sprintf("full-%d", i)}})
		s.placed.pods.Value = append(s.placed.pods.Value, corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default",
			Name: fmt.Sprintf("full-%d", i)}})
	}
	pool := map[string]any{"cidr": "10.245.0.0/29", "blockSize": int64(29), "nodeSelector": "all()",
		"allowedUses": []any{"Workload"}}
	block := map[string]any{"cidr": "10.245.0.0/29", "affinity": "host:node-a", "allocations": given,
		"attributes": attributes, "unallocated": []any{}}
	config := map[string]any{}
	change(pool, block, config)
	s.pools.Value = specs{"small": pool, "default-ipv4-ippool": {"cidr": "10.244.0.0/16", "disabled": true}}
	s.ipam.Value.config = config
	s.blocks.Value.specs = specs{"10-245-0-0-29": block,
		"10-244-1-0-26": {"cidr": "10.244.1.0/26", "affinity": "host:node-a", "unallocated": []any{int64(1)}}}
}

func TestRoom(t *testing.T) {
	type m = map[string]any
	third := []any{int64(3)}
	for name, c := range map[string]struct {
		change func(pool, block, config m)
		short  string
		check  func(r room) bool
	}{
		"recorded":    {func(_, _, _ m) {}, facts.ShortFull, func(r room) bool { return r.blocks == 1 && r.leaked == 0 }},
		"one is free": {func(_, b, _ m) { b["unallocated"] = third }, "", func(r room) bool { return r.here == 1 }},
		"it is reserved": {func(_, b, c m) { b["unallocated"], c["reserve"] = third, true }, facts.ShortFull,
			func(r room) bool { return r.reserved == 1 }},
		"a block is left": {func(p, _, _ m) { p["cidr"] = "10.245.0.0/28" }, "",
			func(r room) bool { return r.unclaimed == 1 }},
		"none is claimed": {func(p, _,
			c m) {
			p["cidr"] = "10.245.0.0/28"
			c["autoAllocateBlocks"] = false
		}, facts.ShortNoBlocks, nil},
		"limit": {func(p, _, c m) { p["cidr"] = "10.245.0.0/28"; c["maxBlocksPerHost"] = int64(1) },
			facts.ShortLimit, nil},
		"may borrow": {func(_, b, _ m) { b["affinity"], b["unallocated"] = "host:node-b", third }, "",
			func(r room) bool { return r.elsewhere == 1 }},
		"may not borrow": {func(_, b, c m) {
			b["affinity"] = "host:node-b"
			b["unallocated"] = []any{int64(3)}
			c["strictAffinity"] = true
		}, facts.ShortStrict, nil},
		"not for this node": {func(p, _, _ m) { p["nodeSelector"] = "rack == 'b'" }, facts.ShortNoPool,
			func(r room) bool { return strings.Contains(r.text("node-a"), "nodeSelector rack == 'b'") }},
		"not for pods": {func(p, _, _ m) { p["allowedUses"] = []any{"Tunnel"} }, facts.ShortNoPool, nil},
		"by hand only": {func(p, _, _ m) { p["assignmentMode"] = "Manual" }, facts.ShortNoPool, nil},
		"leaked": {func(_, b, _ m) {
			b["attributes"].([]any)[2].(m)["secondary"] = m{"node": "gone", "namespace": "x", "pod": "y"}
			b["attributes"].([]any)[3].(m)["secondary"] = m{"node": "node-a", "namespace": "x", "pod": "y"}
			b["attributes"].([]any)[4].(m)["secondary"] = m{"type": "ipipTunnelAddress", "node": "node-a"}
		}, facts.ShortFull, func(r room) bool { return r.leaked == 2 && r.borrowed == 0 }},
	} {
		s := placedOn(eventSandbox, saidFull, hanging("a", 44*time.Second, "ContainerCreating", ""))
		s.Nodes = append(s.Nodes, node("node-b", "10.0.0.2", ""))
		s.Node = &s.Nodes[0]
		fullPool(s, c.change)
		if s.ipam.Value.config["reserve"] == true {
			c := serverOf(t, map[string]string{
				"/apis/crd.projectcalico.org/v1/ipreservations": `{"kind":"List","items":[{"metadata":{"name":"r"},"spec":{"reservedCIDRs":["10.245.0.2/31","10.9.0.0/16"]}}]}`,
			}, nil)
			config := s.ipam.Value.config
			s.ipam.read(t.Context(), c.readIPAM)
			s.ipam.Value.config = config
		}
		r, known := roomFor(s, false)
		if !known || r.short() != c.short || c.check != nil && !c.check(r) {
			t.Errorf("%s: %v, %q, want %q: %+v", name, known, r.short(), c.short, r)
		}
		got := ask(t, s, facts.CheckPodsStart)
		want := map[bool]probe.Status{true: probe.Warn, false: probe.Fail}[c.short == ""]
		if len(got) != 1 || got[0].Status != want || got[0].Facts[facts.Short] != c.short {
			t.Errorf("%s: %v", name, got)
		}
	}
	// The words of IPAM where no pool selects the node, and where none is enabled (v3.32).
	for _, says := range []string{"no configured Calico pools for node node-a", "cannot find a qualified ippool"} {
		two := placedOn(eventSandbox, saidSandbox+`plugin type="calico" failed (add): `+says,
			hanging("a", 44*time.Second, "ContainerCreating", ""), hanging("b", 44*time.Second, "ContainerCreating", ""))
		two.placed.waiting.Value[1].pod.Namespace = "team-b" // of one namespace alone: TestTenantsFamily
		fullPool(two, func(_, _, _ m) {})
		got := ask(t, two, facts.CheckPodsStart)
		if len(got) != 1 || got[0].Status != probe.Fail || got[0].Facts[facts.AddressesOfPod] != 6 ||
			got[0].Facts[facts.Short] != facts.ShortNoPool || got[0].Facts[facts.OtherPools] == nil {
			t.Errorf("%s, IPv6 is requested and only IPv4 has a pool: %v", says, got)
		}
	}
	s := placedOn("", "")
	if _, known := roomFor(s, false); known {
		t.Error("another IPAM is reckoned up")
	}
}

// TestReadPlaced wants the events of the pods that wait read, and of no others.
func TestReadPlaced(t *testing.T) {
	var asked []string
	c := serverOf(t, map[string]string{
		"/api/v1/pods": `{"kind":"PodList","items":[{"metadata":{"namespace":"default","name":"a","uid":"1"},"spec":{"nodeName":"node-a"},"status":{"phase":"Pending","containerStatuses":[{"name":"c","state":{"waiting":{"reason":"ContainerCreating"}}}]}},{"metadata":{"namespace":"default","name":"b","uid":"2"},"status":{"phase":"Running","containerStatuses":[{"name":"c","state":{"running":{}}}]}}]}`,
	}, map[string]http.HandlerFunc{"/api/v1/namespaces/default/events": func(w http.ResponseWriter, r *http.Request) {
		asked = append(asked, r.URL.Query().Get("fieldSelector"))
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprint(w, `{"kind":"EventList","items":[{"reason":"FailedCreatePodSandBox","message":"one","source":{"component":"kubelet","host":"node-a"},"lastTimestamp":"2026-11-22T12:00:01Z"},{"reason":"FailedCreatePodSandBox","message":"a tenant's","source":{"component":"tenant"},"lastTimestamp":"2076-11-22T12:00:01Z"},{"reason":"FailedCreatePodSandBox","message":"another node's","source":{"component":"kubelet","host":"node-b"},"lastTimestamp":"2026-11-22T12:00:03Z"},{"reason":"FailedMount","message":"before","source":{"component":"kubelet","host":"node-a"},"lastTimestamp":"2026-11-22T12:00:00Z"},{"reason":"BackOff","message":"after","source":{"component":"kubelet","host":"node-a"},"lastTimestamp":"2026-11-22T12:00:02Z"}]}`)
	}})
	got := c.readPlaced(t.Context(), "node-a")
	var all probe.Workers
	c.readWaits(t.Context(), &got, &all)
	all.Wait()
	if len(got.pods.Value) != 2 || len(got.waiting.Value) != 1 || !slices.Equal(asked, []string{"involvedObject.uid=1"}) {
		t.Fatalf("%+v, asked %v", got, asked)
	}
	if last := got.waiting.Value[0].last; last == nil || last.Message != "one" {
		t.Errorf("%+v", last)
	}
}

// TestLastWord wants the last event of the node's kubelet that says how far a pod has come, and no other's.
func TestLastWord(t *testing.T) {
	t.Parallel()
	event := func(age time.Duration, host, reason string) corev1.Event {
		return corev1.Event{Reason: reason, Source: corev1.EventSource{Component: "kubelet", Host: host},
			LastTimestamp: ago(age)}
	}
	events := []corev1.Event{event(3*time.Minute, "a", eventSandbox), event(2*time.Minute, "a", eventCgroup),
		event(time.Minute, "a", "BackOff"), event(time.Second, "b", eventMount)}
	if got := lastWord(events, "a"); got == nil || got.Reason != eventCgroup {
		t.Errorf("%+v", got)
	}
}
