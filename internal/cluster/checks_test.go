package cluster

import (
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/calico-probe/calico-probe/internal/conditions"
	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/probe/facts"
)

var now = time.Date(2026, 11, 21, 3, 50, 0, 0, time.UTC)

func ago(d time.Duration) metav1.Time { return metav1.NewTime(now.Add(-d)) }

// node has an InternalIP and, unless empty, a registered Calico address.
func node(name, internal, registered string) corev1.Node {
	n := corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Annotations: map[string]string{}}}
	if registered != "" {
		n.Annotations[annotationIPv4] = registered
	}
	n.Status.Addresses = []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: internal}}
	n.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue,
		LastTransitionTime: ago(time.Hour)}}
	return n
}

func snapshot(nodes ...corev1.Node) *Snapshot {
	return &Snapshot{Now: now, Node: &nodes[0], Survey: Survey{Nodes: nodes, calicoIn: Namespaces("")}}
}

// ask runs one check on a snapshot and gives its results.
func ask(t *testing.T, s *Snapshot, id string) []probe.Result {
	t.Helper()
	var got []probe.Result
	r := probe.Runner{Suite: Checks(s), Host: &probe.Host{}}
	r.Run(t.Context(), probe.Plan{Checks: []string{id}}, func(ev probe.Event) {
		if ev.Type == probe.EventResult {
			got = append(got, *ev.Result)
		}
	})
	return got
}

func wantFirst(t *testing.T, got []probe.Result, s probe.Status, saw string) {
	t.Helper()
	if len(got) == 0 || got[0].Status != s || !strings.Contains(got[0].Saw, saw) {
		t.Errorf("got %v, want first %s with %q", got, s, saw)
	}
}

func TestChecksAreWellFormed(t *testing.T) {
	if err := probe.Validate(Checks(nil)); err != nil {
		t.Error(err)
	}
}

func TestNodeReady(t *testing.T) {
	for name, c := range map[string]struct {
		condition corev1.NodeCondition
		status    probe.Status
		saw       string
	}{
		"ready": {corev1.NodeCondition{Type: corev1.NodeReady, Status: corev1.ConditionTrue}, probe.OK, "Ready for"},
		"runtime": {corev1.NodeCondition{Type: corev1.NodeReady, Status: corev1.ConditionFalse, Reason: "KubeletNotReady",
			Message: "container runtime is down"}, probe.Fail, "KubeletNotReady: container runtime is down"},
		"stopped": {corev1.NodeCondition{Type: corev1.NodeReady, Status: corev1.ConditionUnknown,
			Reason: "NodeStatusUnknown", Message: "Kubelet stopped posting node status."}, probe.Fail, "stopped posting"},
		"absent": {corev1.NodeCondition{Type: "Other", Status: corev1.ConditionFalse}, probe.Fail, "Unknown"},
	} {
		s := snapshot(node("a", "10.0.0.1", ""))
		c.condition.LastTransitionTime = ago(time.Minute)
		s.Node.Status.Conditions = []corev1.NodeCondition{c.condition}
		t.Run(name, func(t *testing.T) { wantFirst(t, ask(t, s, "node-ready"), c.status, c.saw) })
	}
	s := snapshot(node("a", "10.0.0.1", ""))
	s.Node.Status.Conditions = append(s.Node.Status.Conditions,
		corev1.NodeCondition{Type: corev1.NodeDiskPressure, Status: corev1.ConditionTrue, Reason: "KubeletHasDiskPressure"},
		corev1.NodeCondition{Type: "SomebodysOwn", Status: corev1.ConditionTrue},
		corev1.NodeCondition{Type: conditions.Type, Status: corev1.ConditionTrue},
		corev1.NodeCondition{Type: corev1.NodeMemoryPressure, Status: corev1.ConditionFalse})
	got := ask(t, s, "node-ready")
	if len(got) != 3 || got[1].Status != probe.Fail || got[2].Status != probe.Warn {
		t.Errorf("beside a good Ready: %v", got)
	}
}

func TestNodeLease(t *testing.T) {
	lease := func(age time.Duration) *coordinationv1.Lease {
		return &coordinationv1.Lease{Spec: coordinationv1.LeaseSpec{RenewTime: new(metav1.NewMicroTime(now.Add(-age)))}}
	}
	gone := apierrors.NewNotFound(schema.GroupResource{Resource: "leases"}, "a")
	leases := schema.GroupResource{Resource: "leases"}
	denied := apierrors.NewForbidden(leases, "a", errors.New("no"))
	right := apierrors.NewForbidden(leases, "a", errors.New(`User "joe" cannot get resource "leases" in API group "x"`))
	for name, c := range map[string]struct {
		lease  *coordinationv1.Lease
		err    error
		status probe.Status
		saw    string
	}{
		"fresh":  {lease(3 * time.Second), nil, probe.OK, "3s ago"},
		"late":   {lease(30 * time.Second), nil, probe.Warn, "30s"},
		"over":   {lease(5 * time.Minute), nil, probe.Fail, "5m"},
		"future": {lease(-3 * time.Second), nil, probe.OK, "0s"},
		"none":   {nil, gone, probe.Fail, "no lease"},
		"denied": {nil, denied, probe.Unknown, "refuses"},
		"right":  {nil, right, probe.Unknown, "no right to get leases"},
		"empty":  {&coordinationv1.Lease{}, nil, probe.Unknown, "no renew time"},
	} {
		s := snapshot(node("a", "10.0.0.1", ""))
		s.lease.Value, s.lease.Err = c.lease, c.err
		t.Run(name, func(t *testing.T) { wantFirst(t, ask(t, s, "node-lease"), c.status, c.saw) })
	}
	s := snapshot(node("a", "10.0.0.1", ""))
	s.lease.Err, s.Node.CreationTimestamp = gone, ago(5*time.Second)
	wantFirst(t, ask(t, s, "node-lease"), probe.Info, "registered 5s ago")
	if KubeletSilent(s) {
		t.Error("a kubelet that has just registered is called silent")
	}
	s.Calico.Value, s.Node.CreationTimestamp = calico(3), ago(time.Hour)
	if !KubeletSilent(s) {
		t.Error("a kubelet without a lease is not called silent")
	}
	wantFirst(t, ask(t, s, "calico-pod"), probe.Unknown, "the kubelet is silent")
}

func TestNodeTaints(t *testing.T) {
	for taint, want := range map[string]probe.Status{
		"":                                 probe.OK,
		"dedicated":                        probe.Info,
		"node.kubernetes.io/unschedulable": probe.Info,
		"node.kubernetes.io/unreachable":   probe.Warn,
	} {
		s := snapshot(node("a", "10.0.0.1", ""))
		if taint != "" {
			s.Node.Spec.Taints = []corev1.Taint{{Key: taint, Effect: corev1.TaintEffectNoExecute}}
		}
		wantFirst(t, ask(t, s, "node-taints"), want, taint)
	}
}

// calico is a calico-node pod with three init containers, of which n are done,
// and a running, ready main container when all are.
func calico(done int) *corev1.Pod {
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: "calico-node-x",
		CreationTimestamp: ago(time.Hour)}}
	for i, name := range []string{"upgrade-ipam", "install-cni", "ebpf-bootstrap"} {
		p.Spec.InitContainers = append(p.Spec.InitContainers, corev1.Container{Name: name})
		st := corev1.ContainerStatus{Name: name,
			State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "PodInitializing"}}}
		if i < done {
			st.State = corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{}}
		}
		p.Status.InitContainerStatuses = append(p.Status.InitContainerStatuses, st)
	}
	p.Spec.Containers = []corev1.Container{{Name: calicoContainer, LivenessProbe: &corev1.Probe{
		InitialDelaySeconds: 10, PeriodSeconds: 10, FailureThreshold: 6, TimeoutSeconds: 10,
	}}}
	main := corev1.ContainerStatus{Name: calicoContainer,
		State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "PodInitializing"}}}
	if done == 3 {
		main.Ready = true
		main.State = corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: ago(time.Hour)}}
	}
	p.Status.ContainerStatuses = []corev1.ContainerStatus{main}
	return p
}

func TestCalicoPod(t *testing.T) {
	running := func(age time.Duration) corev1.ContainerState {
		return corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: ago(age)}}
	}
	killed := corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: 137, Reason: "Error",
		StartedAt: ago(3 * time.Minute), FinishedAt: ago(2 * time.Minute)}}
	for name, c := range map[string]struct {
		done   int
		change func(init, main *corev1.ContainerStatus)
		status probe.Status
		saw    string
	}{
		"healthy": {3, nil, probe.OK, "running and ready"},
		"hangs in init": {0, func(i, _ *corev1.ContainerStatus) { i.State = running(34 * time.Minute) }, probe.Fail,
			"Init:0/3: init container upgrade-ipam is running for 34m"},
		"init begins": {0, func(i, _ *corev1.ContainerStatus) { i.State = running(20 * time.Second) }, probe.Warn,
			"upgrade-ipam"},
		"init failed": {0, func(i, _ *corev1.ContainerStatus) { i.State.Waiting.Reason = "CrashLoopBackOff" }, probe.Fail,
			"CrashLoopBackOff"},
		"not started": {0, nil, probe.Fail, "has not started"},
		"crash loop": {3, func(_, m *corev1.ContainerStatus) {
			m.State = corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "CrashLoopBackOff"}}
			m.LastTerminationState = killed
			m.RestartCount = 9
		}, probe.Fail, "CrashLoopBackOff, 9 restarts; previous container exited 137 (Error) after 60s, "},
		"not ready": {3, func(_, m *corev1.ContainerStatus) { m.Ready = false }, probe.Fail, "has not been ready for 60m"},
		"just restarted": {3, func(_, m *corev1.ContainerStatus) { m.State = running(time.Minute); m.RestartCount = 1 },
			probe.Warn, "1 restart"},
		"old restarts": {3, func(_, m *corev1.ContainerStatus) { m.RestartCount = 7 }, probe.OK, "7 restarts"},
	} {
		s := snapshot(node("a", "10.0.0.1", ""))
		s.Calico.Value = calico(c.done)
		if c.change != nil {
			c.change(&s.Calico.Value.Status.InitContainerStatuses[0], &s.Calico.Value.Status.ContainerStatuses[0])
		}
		t.Run(name, func(t *testing.T) { wantFirst(t, ask(t, s, "calico-pod"), c.status, c.saw) })
	}
	wantFirst(t, ask(t, snapshot(node("a", "10.0.0.1", "")), "calico-pod"), probe.Fail, "no calico-node pod")
	s := snapshot(node("a", "10.0.0.1", ""))
	s.Calico.Err = errors.New("broken")
	wantFirst(t, ask(t, s, "calico-pod"), probe.Unknown, "broken")
}

func TestCalicoBudget(t *testing.T) {
	for name, c := range map[string]struct {
		lived  time.Duration
		code   int32
		reason string
		status probe.Status
		saw    string
	}{
		"never ended":       {0, 0, "", probe.OK, "about 70s"},
		"killed by budget":  {62 * time.Second, 137, "Error", probe.Fail, "it never got to answer"},
		"killed early":      {5 * time.Second, 137, "Error", probe.Info, "lived 5s"},
		"ended by itself":   {65 * time.Second, 1, "Error", probe.Info, "exit code 1"},
		"out of memory":     {65 * time.Second, 137, "OOMKilled", probe.Info, "OOMKilled"},
		"killed much later": {time.Hour, 137, "Error", probe.Info, "60m"},
		"ended when asked":  {62 * time.Second, 0, "Completed", probe.Fail, "it never got to answer"},
		"killed, and ready": {62 * time.Second, 137, "Error", probe.Info, "lived 62s"},
		"killed, and past": {62 * time.Second, 0, "Completed", probe.Warn,
			"killed 3m ago (exit code 0) after 62s, about what the liveness probe allows (70s); the run since is ready"},
		"past, not ready": {62 * time.Second, 0, "Completed", probe.Fail, "it never got to answer"},
		"ready once more": {62 * time.Second, 137, "Error", probe.Warn, "killed 31s ago (exit code 137) after 62s"},
	} {
		s := snapshot(node("a", "10.0.0.1", ""))
		s.Calico.Value = calico(3)
		running := &s.Calico.Value.Status.ContainerStatuses[0]
		running.State.Running.StartedAt = ago(30 * time.Second)
		ended := 31 * time.Second
		if name == "killed, and ready" { // that was forty days ago
			running.State.Running.StartedAt = ago(40 * 24 * time.Hour)
			ended = 40*24*time.Hour + time.Second
		}
		if name == "ready once more" { // it is asked whether it is
			s.Calico.Value.Spec.Containers[0].ReadinessProbe = &corev1.Probe{}
		}
		if strings.Contains(name, "past") {
			running.State.Running.StartedAt, running.Ready = ago(3*time.Minute), name == "killed, and past"
			ended = 3*time.Minute + time.Second
		}
		if c.lived > 0 {
			running.LastTerminationState.Terminated = &corev1.ContainerStateTerminated{
				ExitCode: c.code, Reason: c.reason, StartedAt: ago(ended + c.lived), FinishedAt: ago(ended),
			}
		}
		t.Run(name, func(t *testing.T) { wantFirst(t, ask(t, s, "calico-budget"), c.status, c.saw) })
	}
}

func TestIPRegistered(t *testing.T) {
	silent := func(n corev1.Node) corev1.Node {
		n.Status.Conditions[0].Status = corev1.ConditionUnknown
		return n
	}
	for name, c := range map[string]struct {
		nodes  []corev1.Node
		status probe.Status
		saw    string
		more   int // results beyond the first
	}{
		"all agree": {[]corev1.Node{node("a", "172.17.73.66", "172.17.73.66/22"),
			node("b", "172.17.73.65", "172.17.73.65/22")}, probe.OK, "1 of 1 other nodes agree", 0},
		"incident 003, a new NIC": {[]corev1.Node{node("a", "172.17.73.66", "10.0.0.66/24"),
			node("b", "172.17.73.65", "172.17.73.65/22")},
			probe.Fail, "registered 10.0.0.66 is not the InternalIP 172.17.73.66; outside its network 10.0.0.0/24: 1 of 1 other nodes", 0},
		"incident 004, a docker bridge": {[]corev1.Node{node("a", "10.1.0.1", "172.18.0.1/16"),
			node("b", "10.1.0.2", "10.1.0.2/24"), node("c", "10.1.0.3", "10.1.0.3/24")},
			probe.Fail, "172.18.0.1", 0},
		"a network of its own": {[]corev1.Node{node("a", "10.1.0.1", "192.168.0.1/24"),
			node("b", "10.1.0.2", "192.168.0.2/24")}, probe.Info, "same network", 0},
		"a network for each rack": {[]corev1.Node{node("a", "10.1.0.1", "192.168.1.1/24"),
			node("b", "10.1.0.2", "192.168.2.1/24")}, probe.Info, "a network of its own", 0},
		"bare addresses": {[]corev1.Node{node("a", "10.1.0.1", "192.168.1.1"),
			node("b", "10.1.0.2", "192.168.1.2")}, probe.Info, "a network of its own", 0},
		"bare and odd": {[]corev1.Node{node("a", "10.1.0.1", "172.18.0.1"), node("b", "10.1.0.2", "10.1.0.2")},
			probe.Fail, "1 of 1 other nodes registered theirs", 0},
		"the other is odd": {[]corev1.Node{node("a", "10.1.0.1", "10.1.0.1/24"),
			node("b", "10.1.0.2", "172.18.0.1/16")}, probe.OK, "0 of 1", 1},
		"twice the same": {[]corev1.Node{node("a", "10.1.0.1", "172.18.0.1/16"),
			node("b", "10.1.0.2", "172.18.0.1/16")}, probe.Fail, "for this node and for b", 0},
		"routed, all agree": {[]corev1.Node{node("a", "10.1.0.1", "10.1.0.1/32"),
			node("b", "10.2.0.1", "10.2.0.1/32")}, probe.OK, "agree", 0},
		"missing here": {[]corev1.Node{node("a", "10.1.0.1", ""), node("b", "10.1.0.2", "10.1.0.2/24")},
			probe.Warn, "no IPv4 address registered here", 0},
		"missing here, and an old Node has it": {[]corev1.Node{node("a", "10.1.0.1", ""), silent(node("b", "", "10.1.0.1/24"))},
			probe.Fail, "this node's InternalIP, is for b, which is NotReady (its kubelet is silent)", 0},
		"nowhere": {[]corev1.Node{node("a", "10.1.0.1", "")}, probe.Warn, "no node carries", 0},
		"alone":   {[]corev1.Node{node("a", "10.1.0.1", "10.9.0.1/24")}, probe.Info, "no other node", 0},
		"rubbish": {[]corev1.Node{node("a", "10.1.0.1", "not an address")}, probe.Warn, "no node carries", 0},
	} {
		t.Run(name, func(t *testing.T) {
			got := ask(t, snapshot(c.nodes...), "ip-registered")
			wantFirst(t, got, c.status, c.saw)
			if len(got) != 1+c.more {
				t.Errorf("%d results, want %d: %v", len(got), 1+c.more, got)
			}
			// Rules read why, and which other node it is about.
			reasons := map[string][2]string{
				"incident 003, a new NIC": {facts.ReasonOutside, ""}, "incident 004, a docker bridge": {facts.ReasonOutside,
					""}, "bare and odd": {facts.ReasonOutside, ""},
				"the other is odd": {facts.ReasonPeer, "b"}, "twice the same": {facts.ReasonTaken, "b"},
				"missing here, and an old Node has it": {facts.ReasonTaken, "b"},
			}
			last := got[len(got)-1].Facts
			if saw := [2]string{last.Str(probe.FactReason), last.Str(probe.FactNode)}; saw != reasons[name] {
				t.Errorf("reason and node %q, want %q", saw, reasons[name])
			}
		})
	}
}

// TestSharedInternalIP wants two kubelets at one address and port told, and neither the old Node of a machine nor
// kubelets that share a host on purpose.
func TestSharedInternalIP(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		change func(*corev1.Node)
		says   bool
	}{
		"both Ready":       {func(*corev1.Node) {}, true},
		"an old Node":      {func(n *corev1.Node) { n.Status.Conditions[0].Status = corev1.ConditionUnknown }, false},
		"another port":     {func(n *corev1.Node) { n.Status.DaemonEndpoints.KubeletEndpoint.Port = 10350 }, false},
		"another address":  {func(n *corev1.Node) { n.Status.Addresses[0].Address = "10.0.2.16" }, false},
		"only a link's":    {func(n *corev1.Node) { n.Status.Addresses[0].Address = "fe80::1" }, false},
		"of no kind known": {func(n *corev1.Node) { n.Status.Addresses[0].Type = corev1.NodeHostName }, false},
	} {
		s := snapshot(node("a", "10.0.2.15", "192.168.56.11/24"), node("b", "10.0.2.15", "192.168.56.12/24"))
		c.change(&s.Nodes[1])
		got := ask(t, s, facts.CheckIPRegistered)
		if says := got[0].Facts.Str(probe.FactReason) == facts.ReasonShared; says != c.says {
			t.Errorf("%s: %v", name, got)
		}
	}
}

// TestRenamedNode wants the Node named as which a silent node's machine reports now.
func TestRenamedNode(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		change func(*corev1.Node)
		want   string
	}{
		"the same machine":         {func(n *corev1.Node) { n.Status.Addresses[0].Address = "10.0.0.1" }, "b"},
		"a clone":                  {func(*corev1.Node) {}, ""},
		"in a container beside it": {func(n *corev1.Node) { n.Status.NodeInfo.MachineID = "other" }, ""},
		"another machine": {func(n *corev1.Node) {
			n.Status.Addresses[0].Address, n.Status.NodeInfo.SystemUUID = "10.0.0.1", "other"
		}, ""},
		"that is as silent": {func(n *corev1.Node) {
			n.Status.Addresses[0].Address, n.Status.Conditions[0].Status = "10.0.0.1", corev1.ConditionUnknown
		}, ""},
	} {
		s := snapshot(node("a", "10.0.0.1", ""), node("b", "10.0.0.2", ""))
		s.Nodes[0].Status.NodeInfo = corev1.NodeSystemInfo{MachineID: "m", SystemUUID: "u", BootID: "boot"}
		s.Nodes[1].Status.NodeInfo = corev1.NodeSystemInfo{MachineID: "m", SystemUUID: "u", BootID: "boot"}
		c.change(&s.Nodes[1])
		s.lease.Value = &coordinationv1.Lease{Spec: coordinationv1.LeaseSpec{
			RenewTime: new(metav1.NewMicroTime(now.Add(-5 * time.Minute)))}}
		got := ask(t, s, facts.CheckNodeLease)
		if saw := got[0].Facts.Str(facts.RenamedTo); saw != c.want || got[0].Status != probe.Fail {
			t.Errorf("%s: %v", name, got)
		}
	}
}

// TestBirdProbe wants a probe that asks for what the backend does not run named.
func TestBirdProbe(t *testing.T) {
	for backend, want := range map[string]string{"vxlan": facts.ReasonBirdProbe, "none": facts.ReasonBirdProbe,
		"bird": "", "": ""} {
		s := snapshot(node("a", "10.0.0.1", ""))
		s.Calico.Value, s.backend.Value = calico(3), backend
		s.Calico.Value.Status.ContainerStatuses[0].Ready = false
		s.Calico.Value.Spec.Containers[0].ReadinessProbe = &corev1.Probe{ProbeHandler: corev1.ProbeHandler{
			Exec: &corev1.ExecAction{Command: []string{"/bin/calico-node", "-felix-ready", "-bird-ready"}},
		}}
		got := ask(t, s, "calico-pod")
		if reason := got[0].Facts.Str(probe.FactReason); reason != want {
			t.Errorf("%q: reason %q, want %q", backend, reason, want)
		}
	}
}

func TestPeersAreReadyFirstAndSpread(t *testing.T) {
	nodes := []corev1.Node{node("me", "10.0.0.1", "")}
	for i := range 100 {
		n := node(fmt.Sprintf("n%03d", i), "10.0.0.2", "")
		if i%2 == 0 {
			n.Status.Conditions[0].Status = corev1.ConditionUnknown
		}
		nodes = append(nodes, n)
	}
	s := snapshot(nodes...)
	got := peers(s, 8)
	if len(got) != 8 || got[0].Name != "n001" || got[7].Name < "n080" {
		t.Errorf("first %s, last %s of %d", got[0].Name, got[len(got)-1].Name, len(got))
	}
	if got := peers(s, 60); len(got) != 60 || got[49].Name != "n099" || got[50].Name != "n000" {
		t.Errorf("when the ready ones do not suffice: %d", len(got))
	}
	if got := peers(snapshot(nodes[0]), 8); len(got) != 0 {
		t.Errorf("a node alone has peers: %v", got)
	}
}

func TestTargets(t *testing.T) {
	s := snapshot(node("a", "10.1.0.1", "10.1.0.1/24"), node("b", "10.1.0.2", "172.18.0.1/16"))
	s.Calico.Value = calico(3)
	s.Calico.Value.Spec.Containers[0].Env = []corev1.EnvVar{{Name: "FELIX_HEALTHPORT", Value: "9199"}}
	s.felix.Value = map[string]any{"healthHost": "127.0.0.1", "healthPort": int64(1)}
	pod := corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "w"}}
	pod.Spec.NodeName, pod.Status.PodIPs = "b", []corev1.PodIP{{IP: "10.244.1.2"}, {IP: "fd00::2"}}
	s.pods.Value, s.backend.Value = []corev1.Pod{pod}, "vxlan"
	s.peering.configs.Value = specs{"default": {"listenPort": int64(1799)},
		"node.a": {"listenPort": int64(1790)}, "node.b": {"listenPort": int64(1)}}
	s.Calico.Value.Spec.Containers[0].Image = "docker.io/calico/node:v3.32.1-amd64"
	s.Node.Status.NodeInfo.ContainerRuntimeVersion = "containerd://2.4.2"
	var got []string
	s.pods.Err = errors.New("the server was too slow")
	targets, gaps := Targets(s)
	if len(gaps) != 1 || gaps[probe.KindPod] != "the server was too slow" {
		t.Errorf("gaps %v", gaps)
	}
	for _, t := range targets {
		got = append(got, fmt.Sprintf("%s/%s/%s:%d", t.Kind, t, t.Host, t.Port))
	}
	want := "felix/felix/127.0.0.1:9199 self/a 10.1.0.1/:0 backend/vxlan/:1790 calico/v3.32.1/:0 runtime/containerd://2.4.2/:0 node/b 10.1.0.2/:0 peer/b 172.18.0.1/:0 pod/default/w 10.244.1.2/:0 pod/default/w fd00::2/:0"
	if strings.Join(got, " ") != want {
		t.Errorf("got  %v\nwant %s", got, want)
	}
}

func TestBlocks(t *testing.T) {
	spec := func(kv ...any) map[string]any {
		m := map[string]any{"cidr": "10.244.1.0/26", "node": "b", "state": "confirmed", "deleted": "false", "type": "host"}
		for i := 0; i < len(kv); i += 2 {
			m[kv[i].(string)] = kv[i+1]
		}
		return m
	}
	for name, c := range map[string]struct {
		obj  map[string]any
		want bool
	}{
		"v1": {spec(), true}, "v3": {spec("deleted", false), true}, "old": {spec("type", nil, "deleted", nil), true},
		"pending": {spec("state", "pending"), false}, "deleted v1": {spec("deleted", "true"), false},
		"deleted v3": {spec("deleted", true), false},
		"virtual":    {spec("type", "virtual"), false}, "rubbish": {spec("cidr", "x"), false},
		"nobody's": {spec("node", ""), false}, "empty": {nil, false},
	} {
		if _, ok := confirmed(c.obj); ok != c.want {
			t.Errorf("%s: %v", name, ok)
		}
	}
	s := snapshot(node("a", "10.1.0.1", "10.1.0.1/24"), node("b", "10.1.0.2", "10.1.0.2/24"))
	s.blocks.Value.owned = []block{{netip.MustParsePrefix("10.244.1.0/26"), "b"},
		{netip.MustParsePrefix("10.244.2.0/26"), "a"},
		{netip.MustParsePrefix("10.244.3.0/26"), "gone"}, {netip.MustParsePrefix("fd00::/122"), "b"}}
	got := blockTargets(s)
	if len(got) != 2 || got[0].Addr.String() != "10.1.0.2" || got[0].Attrs != nil ||
		got[1].Attrs[probe.AttrOwn] != "true" {
		t.Errorf("%+v", got)
	}
	s.Nodes[1].Status.Conditions[0].Status = corev1.ConditionFalse
	if got := blockTargets(s); got[0].Attrs[probe.AttrNode] != "NotReady" {
		t.Errorf("of a node that is not ready: %+v", got[0])
	}
}

// TestBackend wants a backend that could not be read to be a gap, and Calico's
// default only where nothing is set.
func TestBackend(t *testing.T) {
	s := snapshot(node("a", "10.1.0.1", ""))
	s.Calico.Value = calico(3)
	if got, err := readBackend(s.Calico.Value, s.environment()); got != "bird" || err != nil {
		t.Errorf("nothing set: %q, %v", got, err)
	}
	env := &s.Calico.Value.Spec.Containers[0].Env
	*env = []corev1.EnvVar{{Name: "CALICO_NETWORKING_BACKEND", Value: "vxlan"}}
	if got, err := readBackend(s.Calico.Value, s.environment()); got != "vxlan" || err != nil {
		t.Errorf("a literal: %q, %v", got, err)
	}
	*env = []corev1.EnvVar{{Name: "CALICO_NETWORKING_BACKEND",
		ValueFrom: &corev1.EnvVarSource{SecretKeyRef: &corev1.SecretKeySelector{}}}}
	if s.backend.Value, s.backend.Err = readBackend(s.Calico.Value, s.environment()); s.backend.Err == nil {
		t.Error("from a secret: no error")
	}
	if _, gaps := Targets(s); gaps[probe.KindBackend] == "" {
		t.Errorf("gaps %v", gaps)
	}
}

func TestFelixEnabled(t *testing.T) {
	for name, c := range map[string]struct {
		env   []corev1.EnvVar
		felix map[string]any
		want  string
	}{
		"by environment": {[]corev1.EnvVar{{Name: "FELIX_HEALTHENABLED", Value: "true"}},
			map[string]any{"healthEnabled": false}, "true"},
		"off by environment": {[]corev1.EnvVar{{Name: "FELIX_HEALTHENABLED", Value: "false"}},
			map[string]any{"healthEnabled": true}, "false"},
		"by resource":    {nil, map[string]any{"healthEnabled": true}, "true"},
		"off by default": {nil, nil, "false"},
	} {
		s := snapshot(node("a", "10.1.0.1", ""))
		s.Calico.Value, s.felix.Value = calico(3), c.felix
		s.Calico.Value.Spec.Containers[0].Env = c.env
		if got := felixTarget(s).Attrs[probe.AttrEnabled]; got != c.want {
			t.Errorf("%s: enabled %q, want %q", name, got, c.want)
		}
	}
	s := snapshot(node("a", "10.1.0.1", ""))
	if got := felixTarget(s); got.Attrs != nil {
		t.Errorf("without a pod it is not known: %v", got)
	}
}

func TestUnknownNodeNamesTheNearest(t *testing.T) {
	err := &UnknownNodeError{Name: "node-b2", Have: alike([]corev1.Node{node("alpha", "10.0.0.1", ""),
		node("node-b", "10.0.0.2", "")}, "node-b2")}
	if got := err.Error(); got != `no node "node-b2" in this cluster, did you mean node-b?; it has alpha, node-b` {
		t.Error(got)
	}
}

// TestUnready reads what kubelets say: of Kubernetes 1.36 with containerd, and of
// 1.19 with docker.
func TestUnready(t *testing.T) {
	for message, want := range map[string][]string{
		"[container runtime is down, PLEG is not healthy: pleg was last seen active 3m12s ago; threshold is 3m0s]":                                              {facts.UnreadyRuntime, facts.UnreadyPLEG},
		"container runtime network not ready: NetworkReady=false reason:NetworkPluginNotReady message:Network plugin returns error: cni plugin not initialized": {facts.UnreadyNetwork},
		"runtime network not ready: NetworkReady=false reason:NetworkPluginNotReady message:docker: network plugin is not ready: cni config uninitialized":      {facts.UnreadyNetwork},
		"CSINode is not yet initialized": nil,
	} {
		s := snapshot(node("a", "10.0.0.1", ""))
		s.Node.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionFalse,
			Reason: "KubeletNotReady", Message: message}}
		if got := ask(t, s, "node-ready")[0].Facts[facts.Unready]; fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("%s: got %v, want %v", message, got, want)
		}
	}
}

// TestCalicoImage wants what keeps an image away said with it, and a pod that is not
// there told from one that is ill.
func TestCalicoImage(t *testing.T) {
	s := snapshot(node("a", "10.0.0.1", ""))
	s.Calico.Value = calico(3)
	s.Calico.Value.Status.InitContainerStatuses = []corev1.ContainerStatus{{Name: "upgrade-ipam",
		Image: "docker.io/calico/cni:v3.30.0", State: corev1.ContainerState{
			Waiting: &corev1.ContainerStateWaiting{Reason: "ImagePullBackOff",
				Message: "Back-off pulling image: dial tcp 10.0.0.9:443: i/o timeout"},
		}}}
	got := ask(t, s, "calico-pod")
	wantFirst(t, got, probe.Fail, "image docker.io/calico/cni:v3.30.0: Back-off pulling image: dial tcp 10.0.0.9:443: i/o timeout")
	if got[0].Facts.Str(facts.Image) != "docker.io/calico/cni:v3.30.0" ||
		got[0].Facts.Str(facts.APIReason) != "ImagePullBackOff" {
		t.Errorf("%v", got[0].Facts)
	}
	s.Calico.Value = nil
	got = ask(t, s, "calico-pod")
	wantFirst(t, got, probe.Fail, `the node's label kubernetes.io/os is ""`)
	if got[0].Facts.Str(probe.FactReason) != facts.ReasonNoPod {
		t.Errorf("%v", got[0].Facts)
	}
	s.Node.Labels = map[string]string{corev1.LabelOSStable: "linux"}
	if got = ask(t, s, "calico-pod"); strings.Contains(got[0].Saw, "label kubernetes.io/os") {
		t.Errorf("%v", got)
	}
	s.Calico.Value = calico(3)
	s.Calico.Value.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "calico-node", RestartCount: 2,
		State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "CrashLoopBackOff"}},
		LastTerminationState: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{Reason: "OOMKilled",
			ExitCode: 137}}}}
	if got = ask(t, s, "calico-pod"); got[0].Facts.Str(facts.LastEnd) != "OOMKilled" ||
		got[0].Facts[facts.Memory] != int64(0) {
		t.Errorf("%v", got)
	}
	s.Calico.Value.Spec.Containers[0].Resources.Limits = corev1.ResourceList{
		corev1.ResourceMemory: resource.MustParse("256Mi")}
	if got = ask(t, s, "calico-pod"); got[0].Facts[facts.Memory] != int64(256<<20) {
		t.Errorf("%v", got)
	}
}

// TestFixFacts holds what fixes are put together from.
func TestFixFacts(t *testing.T) {
	s := snapshot(node("a", "10.0.0.1", ""))
	s.Calico.Value = calico(3)
	daemonset := true
	s.Calico.Value.OwnerReferences = []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "DaemonSet", Name: "canal",
		Controller: &daemonset}}
	if got := ask(t, s, "calico-pod"); got[0].Facts.Str(facts.Owner) != "canal" || got[0].Facts[facts.Operator] != false {
		t.Errorf("%v", got)
	}
	s.Calico.Value.Annotations = map[string]string{"hash.operator.tigera.io/typha-ca": "1"}
	if got := ask(t, s, "calico-pod"); got[0].Facts[facts.Operator] != true {
		t.Errorf("%v", got)
	}
	spec := &s.Calico.Value.Spec.Containers[0]
	spec.StartupProbe = &corev1.Probe{PeriodSeconds: 5, FailureThreshold: 12}
	if got := ask(t, s, "calico-budget"); got[0].Facts[facts.Period] != 5 ||
		got[0].Facts.Str(facts.BudgetProbe) != "startup" {
		t.Errorf("%v", got)
	}
	s.Node.Labels = map[string]string{"node-role.kubernetes.io/control-plane": ""}
	s.Node.Status.NodeInfo = corev1.NodeSystemInfo{KubeletVersion: "v1.34.1+k3s1",
		ContainerRuntimeVersion: "containerd://2.1.4-k3s1"}
	got := ask(t, s, "node-ready")
	if f := got[0].Facts; f.Str(facts.Kubelet) != "v1.34.1+k3s1" || f.Str(facts.Runtime) != "containerd" ||
		f[facts.ControlPlane] != true {
		t.Errorf("%v", got)
	}
}

func TestDatastoreReady(t *testing.T) {
	s := snapshot(node("a", "10.0.0.1", ""))
	wantFirst(t, ask(t, s, "datastore-ready"), probe.Skip, "no ClusterInformation")
	s.info.Value.spec = map[string]any{"datastoreReady": true}
	wantFirst(t, ask(t, s, "datastore-ready"), probe.OK, "true")
	s.info.Value.spec = map[string]any{"datastoreReady": false}
	wantFirst(t, ask(t, s, "datastore-ready"), probe.Fail, "no new pod gets a network")
	s.info.Err = errors.New("no route to host")
	wantFirst(t, ask(t, s, "datastore-ready"), probe.Unknown, "no route to host")
}

// TestMessage wants the words of a component short and without what is secret in them.
func TestMessage(t *testing.T) {
	t.Parallel()
	if got := message("cannot log in: password=hunter22hunter\nnext"); strings.Contains(got, "hunter22") ||
		!strings.HasPrefix(got, "cannot log in") || strings.Contains(got, "\n") {
		t.Errorf("a password: %q", got)
	}
	if got := message(""); got != "no message" {
		t.Errorf("nothing: %q", got)
	}
}

// TestWriterOf wants the program named that wrote a condition last, as the API server keeps it.
func TestWriterOf(t *testing.T) {
	t.Parallel()
	wrote := func(name, condition string, age time.Duration) metav1.ManagedFieldsEntry {
		at := ago(age)
		return metav1.ManagedFieldsEntry{Manager: name, Time: &at, FieldsV1: metav1.NewFieldsV1(
			`{"f:status":{"f:conditions":{"k:{\"type\":\"` + condition + `\"}":{"f:reason":{}}}}}`)}
	}
	n := node("a", "10.0.0.1", "")
	n.ManagedFields = []metav1.ManagedFieldsEntry{wrote("cloud-controller-manager", "NetworkUnavailable", time.Minute),
		wrote("calico-node", "NetworkUnavailable", time.Hour), wrote("kubelet", "Ready", time.Second)}
	if got := writerOf(&n, corev1.NodeNetworkUnavailable); got != "cloud-controller-manager" {
		t.Errorf("%q", got)
	}
	if got := writerOf(&n, corev1.NodeDiskPressure); got != "" {
		t.Errorf("%q", got)
	}
}
