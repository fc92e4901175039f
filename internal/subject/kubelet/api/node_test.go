package api

import (
	"errors"
	"fmt"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/calico-probe/calico-probe/internal/cluster"
	"github.com/calico-probe/calico-probe/internal/cluster/clustertest"
	"github.com/calico-probe/calico-probe/internal/conditions"
	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/probe/facts"
)

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
		s := clustertest.Snapshot(clustertest.Node("a", "10.0.0.1", ""))
		c.condition.LastTransitionTime = clustertest.Ago(time.Minute)
		s.Node.Status.Conditions = []corev1.NodeCondition{c.condition}
		t.Run(name, func(t *testing.T) { clustertest.WantFirst(t, ask(t, s, "node-ready"), c.status, c.saw) })
	}
	s := clustertest.Snapshot(clustertest.Node("a", "10.0.0.1", ""))
	s.Node.Status.Conditions = append(s.Node.Status.Conditions,
		corev1.NodeCondition{Type: corev1.NodeDiskPressure, Status: corev1.ConditionTrue, Reason: "KubeletHasDiskPressure"},
		corev1.NodeCondition{Type: "Custom", Status: corev1.ConditionTrue},
		corev1.NodeCondition{Type: conditions.Type, Status: corev1.ConditionTrue},
		corev1.NodeCondition{Type: corev1.NodeMemoryPressure, Status: corev1.ConditionFalse})
	got := ask(t, s, "node-ready")
	if len(got) != 3 || got[1].Status != probe.Fail || got[2].Status != probe.Warn {
		t.Errorf("beside a good Ready: %v", got)
	}
}

func TestNodeLease(t *testing.T) {
	lasting := func(l *coordinationv1.Lease, seconds int32) *coordinationv1.Lease {
		l.Spec.LeaseDurationSeconds = &seconds
		return l
	}
	lease := func(age time.Duration) *coordinationv1.Lease {
		renewed := metav1.NewMicroTime(clustertest.Now.Add(-age))
		return &coordinationv1.Lease{Spec: coordinationv1.LeaseSpec{RenewTime: &renewed}}
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
		"denied": {nil, denied, probe.Unknown, "denies access"},
		"right":  {nil, right, probe.Unknown, "no right to get leases"},
		"empty":  {&coordinationv1.Lease{}, nil, probe.Unknown, "no renew time"},
		"slower": {lasting(lease(43*time.Second), 160), nil, probe.OK, "43s"},
		"absurd": {lasting(lease(43*time.Second), 1<<30), nil, probe.Fail, "43s"}, // the node itself writes it
	} {
		s := clustertest.Snapshot(clustertest.Node("a", "10.0.0.1", ""))
		s.Lease.Value, s.Lease.Err = c.lease, c.err
		t.Run(name, func(t *testing.T) { clustertest.WantFirst(t, ask(t, s, "node-lease"), c.status, c.saw) })
	}
	s := clustertest.Snapshot(clustertest.Node("a", "10.0.0.1", ""))
	s.Lease.Value = lasting(lease(43*time.Second), 160)
	s.Node.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionUnknown}}
	clustertest.WantFirst(t, ask(t, s, "node-lease"), probe.Fail, "43s") // the controller-manager has given it up
	s = clustertest.Snapshot(clustertest.Node("a", "10.0.0.1", ""))
	s.Lease.Err, s.Node.CreationTimestamp = gone, clustertest.Ago(5*time.Second)
	clustertest.WantFirst(t, ask(t, s, "node-lease"), probe.Info, "registered 5s ago")
	if cluster.KubeletSilent(s) {
		t.Error("a kubelet that has just registered counts as silent")
	}
	s.Calico.Value, s.Node.CreationTimestamp = clustertest.Calico(3), clustertest.Ago(time.Hour)
	if !cluster.KubeletSilent(s) {
		t.Error("a kubelet without a lease does not count as silent")
	}
}

// TestKubeProxyFact expects the list of kube-proxy's pods as a fact, even an empty one, unless it could not be read.
func TestKubeProxyFact(t *testing.T) {
	s := clustertest.Snapshot(clustertest.Node("a", "10.0.0.1", ""))
	for _, pods := range [][]string{nil, {}, {"kube-proxy-1"}} {
		s.Local.Value.KubeProxy = pods
		got := ask(t, s, "node-ready")[0].Facts[facts.KubeProxy]
		if (got == nil) != (pods == nil) {
			t.Errorf("pods %#v: fact %#v", pods, got)
		}
	}
}

func TestNodeTaints(t *testing.T) {
	for taint, want := range map[string]probe.Status{
		"":                                 probe.OK,
		"dedicated":                        probe.Info,
		"node.kubernetes.io/unschedulable": probe.Info,
		"node.kubernetes.io/unreachable":   probe.Warn,
	} {
		s := clustertest.Snapshot(clustertest.Node("a", "10.0.0.1", ""))
		if taint != "" {
			s.Node.Spec.Taints = []corev1.Taint{{Key: taint, Effect: corev1.TaintEffectNoExecute}}
		}
		clustertest.WantFirst(t, ask(t, s, "node-taints"), want, taint)
	}
}

// TestRenamedNode expects the name of the Node as which the machine of a silent node reports now.
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
		"also silent": {func(n *corev1.Node) {
			n.Status.Addresses[0].Address, n.Status.Conditions[0].Status = "10.0.0.1", corev1.ConditionUnknown
		}, ""},
	} {
		s := clustertest.Snapshot(clustertest.Node("a", "10.0.0.1", ""), clustertest.Node("b", "10.0.0.2", ""))
		s.Nodes[0].Status.NodeInfo = corev1.NodeSystemInfo{MachineID: "m", SystemUUID: "u", BootID: "boot"}
		s.Nodes[1].Status.NodeInfo = corev1.NodeSystemInfo{MachineID: "m", SystemUUID: "u", BootID: "boot"}
		c.change(&s.Nodes[1])
		s.Lease.Value = &coordinationv1.Lease{Spec: coordinationv1.LeaseSpec{
			RenewTime: new(metav1.NewMicroTime(clustertest.Now.Add(-5 * time.Minute)))}}
		got := ask(t, s, facts.CheckNodeLease)
		if saw := got[0].Facts.Str(facts.RenamedTo); saw != c.want || got[0].Status != probe.Fail {
			t.Errorf("%s: %v", name, got)
		}
	}
}

// TestUnready reads messages of kubelets: of Kubernetes 1.36 with containerd, and of 1.19 with docker.
func TestUnready(t *testing.T) {
	for message, want := range map[string][]string{
		"[container runtime is down, PLEG is not healthy: pleg was last seen active 3m12s ago; threshold is 3m0s]":                                              {facts.UnreadyRuntime, facts.UnreadyPLEG},
		"container runtime network not ready: NetworkReady=false reason:NetworkPluginNotReady message:Network plugin returns error: cni plugin not initialized": {facts.UnreadyNetwork},
		"runtime network not ready: NetworkReady=false reason:NetworkPluginNotReady message:docker: network plugin is not ready: cni config uninitialized":      {facts.UnreadyNetwork},
		"CSINode is not yet initialized": nil,
	} {
		s := clustertest.Snapshot(clustertest.Node("a", "10.0.0.1", ""))
		s.Node.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionFalse,
			Reason: "KubeletNotReady", Message: message}}
		if got := ask(t, s, "node-ready")[0].Facts[facts.Unready]; fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("%s: got %v, want %v", message, got, want)
		}
	}
}

// TestWriterOf expects the client that wrote a condition last, from the Node's managed fields.
func TestWriterOf(t *testing.T) {
	t.Parallel()
	wrote := func(name, condition string, age time.Duration) metav1.ManagedFieldsEntry {
		at := clustertest.Ago(age)
		return metav1.ManagedFieldsEntry{Manager: name, Time: &at, FieldsV1: metav1.NewFieldsV1(
			`{"f:status":{"f:conditions":{"k:{\"type\":\"` + condition + `\"}":{"f:reason":{}}}}}`)}
	}
	n := clustertest.Node("a", "10.0.0.1", "")
	n.ManagedFields = []metav1.ManagedFieldsEntry{wrote("cloud-controller-manager", "NetworkUnavailable", time.Minute),
		wrote("calico-node", "NetworkUnavailable", time.Hour), wrote("kubelet", "Ready", time.Second)}
	if got := writerOf(&n, corev1.NodeNetworkUnavailable); got != "cloud-controller-manager" {
		t.Errorf("%q", got)
	}
	if got := writerOf(&n, corev1.NodeDiskPressure); got != "" {
		t.Errorf("%q", got)
	}
}
