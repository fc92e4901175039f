package api

import (
	"fmt"
	"net/netip"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/calico-probe/calico-probe/internal/cluster"
	"github.com/calico-probe/calico-probe/internal/cluster/clustertest"
	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/probe/facts"
)

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
		"all agree": {[]corev1.Node{clustertest.Node("a", "172.17.73.66", "172.17.73.66/22"),
			clustertest.Node("b", "172.17.73.65", "172.17.73.65/22")}, probe.OK, "1 of 1 other nodes match", 0},
		"incident 003, a new NIC": {[]corev1.Node{clustertest.Node("a", "172.17.73.66", "10.0.0.66/24"),
			clustertest.Node("b", "172.17.73.65", "172.17.73.65/22")},
			probe.Fail, "registered 10.0.0.66 is not the InternalIP 172.17.73.66; 1 of 1 other nodes are outside its network 10.0.0.0/24", 0},
		"incident 004, a docker bridge": {[]corev1.Node{clustertest.Node("a", "10.1.0.1", "172.18.0.1/16"),
			clustertest.Node("b", "10.1.0.2", "10.1.0.2/24"), clustertest.Node("c", "10.1.0.3", "10.1.0.3/24")},
			probe.Fail, "172.18.0.1", 0},
		"dedicated pod network": {[]corev1.Node{clustertest.Node("a", "10.1.0.1", "192.168.0.1/24"),
			clustertest.Node("b", "10.1.0.2", "192.168.0.2/24")}, probe.Info, "same network", 0},
		"a network for each rack": {[]corev1.Node{clustertest.Node("a", "10.1.0.1", "192.168.1.1/24"),
			clustertest.Node("b", "10.1.0.2", "192.168.2.1/24")}, probe.Info, "dedicated pod network", 0},
		"bare addresses": {[]corev1.Node{clustertest.Node("a", "10.1.0.1", "192.168.1.1"),
			clustertest.Node("b", "10.1.0.2", "192.168.1.2")}, probe.Info, "dedicated pod network", 0},
		"bare and odd": {[]corev1.Node{clustertest.Node("a", "10.1.0.1", "172.18.0.1"),
			clustertest.Node("b", "10.1.0.2", "10.1.0.2")},
			probe.Fail, "1 of 1 other nodes registered their InternalIP", 0},
		"the other is odd": {[]corev1.Node{clustertest.Node("a", "10.1.0.1", "10.1.0.1/24"),
			clustertest.Node("b", "10.1.0.2", "172.18.0.1/16")}, probe.OK, "0 of 1", 1},
		"twice the same": {[]corev1.Node{clustertest.Node("a", "10.1.0.1", "172.18.0.1/16"),
			clustertest.Node("b", "10.1.0.2", "172.18.0.1/16")}, probe.Fail, "for this node and for b", 0},
		"routed, all agree": {[]corev1.Node{clustertest.Node("a", "10.1.0.1", "10.1.0.1/32"),
			clustertest.Node("b", "10.2.0.1", "10.2.0.1/32")}, probe.OK, "match", 0},
		"missing here": {[]corev1.Node{clustertest.Node("a", "10.1.0.1", ""),
			clustertest.Node("b", "10.1.0.2", "10.1.0.2/24")},
			probe.Warn, "no IPv4 address registered for this node", 0},
		"missing here, and an old Node has it": {[]corev1.Node{clustertest.Node("a", "10.1.0.1", ""), silent(clustertest.Node("b", "", "10.1.0.1/24"))},
			probe.Fail, "its InternalIP 10.1.0.1 is registered for b, which is NotReady (its kubelet is silent)", 0},
		"nowhere": {[]corev1.Node{clustertest.Node("a", "10.1.0.1", "")}, probe.Warn, "no Node has", 0},
		"alone":   {[]corev1.Node{clustertest.Node("a", "10.1.0.1", "10.9.0.1/24")}, probe.Info, "no other node", 0},
		"rubbish": {[]corev1.Node{clustertest.Node("a", "10.1.0.1", "not an address")}, probe.Warn, "no Node has", 0},
	} {
		t.Run(name, func(t *testing.T) {
			got := ask(t, clustertest.Snapshot(c.nodes...), "ip-registered")
			clustertest.WantFirst(t, got, c.status, c.saw)
			if len(got) != 1+c.more {
				t.Errorf("%d results, want %d: %v", len(got), 1+c.more, got)
			}
			// Causes read the reason and the other node.
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

// TestSharedInternalIP expects a report of two kubelets with the same address and port. It accepts a machine's old
// Node, and kubelets that share a host on purpose.
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
		s := clustertest.Snapshot(clustertest.Node("a", "10.0.2.15", "192.168.56.11/24"),
			clustertest.Node("b", "10.0.2.15", "192.168.56.12/24"))
		c.change(&s.Nodes[1])
		got := ask(t, s, facts.CheckIPRegistered)
		if says := got[0].Facts.Str(probe.FactReason) == facts.ReasonShared; says != c.says {
			t.Errorf("%s: %v", name, got)
		}
	}
}

// TestUnregistered has clusters where Calico writes no addresses on Nodes: the annotations are stale.
func TestUnregistered(t *testing.T) {
	stale := func(image, backend string) *cluster.Snapshot {
		s := clustertest.Snapshot(clustertest.Node("a", "10.0.0.1", "172.18.0.1/16"),
			clustertest.Node("b", "10.0.0.2", "10.0.0.2/24"))
		s.Calico.Value, s.Backend.Value = clustertest.Calico(3), backend
		s.Calico.Value.Spec.Containers[0].Image = image
		return s
	}
	s := stale("calico/node:v3.32.1", "none")
	s.ForgetRegistered()
	clustertest.WantFirst(t, ask(t, s, facts.CheckIPRegistered), probe.Skip, "backend is none")
	targets, _ := cluster.Targets(s)
	for _, target := range targets {
		if target.Kind == probe.KindSelf || target.Kind == probe.KindPeer ||
			target.Addr == netip.MustParseAddr("172.18.0.1") {
			t.Errorf("of what is left over: %+v", target)
		}
	}
	s = stale("calico/node:v3.26.1", "none")
	s.ForgetRegistered()
	clustertest.WantFirst(t, ask(t, s, facts.CheckIPRegistered), probe.Fail, "172.18.0.1")
	s = stale("calico/node:v3.32.1", "vxlan")
	s.Etcd.Value = []probe.Target{{Kind: probe.KindDatastore}}
	s.HideEtcd()
	s.ForgetRegistered()
	clustertest.WantFirst(t, ask(t, s, facts.CheckIPRegistered), probe.Skip, "etcd")
	if strings.Contains(fmt.Sprint(s.Nodes[0].Annotations), "172.18") {
		t.Error("left-over annotations are kept")
	}
}
