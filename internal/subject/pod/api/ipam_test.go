package api

import (
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/calico-probe/calico-probe/internal/cluster"
	"github.com/calico-probe/calico-probe/internal/cluster/clustertest"
	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/probe/facts"
)

// fullPool sets up a recorded case: the only enabled pool is a /29 with one block, and all its addresses are assigned.
func fullPool(s *cluster.Snapshot, change func(pool, block, config map[string]any)) {
	var given []any
	attributes := []any{}
	for i := range 8 {
		given = append(given, int64(i))
		attributes = append(attributes, map[string]any{"secondary": map[string]any{
			"node": "node-a", "namespace": "default", "pod": fmt.Sprintf("full-%d", i)}})
		s.Placed.Pods.Value = append(s.Placed.Pods.Value, corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default",
			Name: fmt.Sprintf("full-%d", i)}})
	}
	pool := map[string]any{"cidr": "10.245.0.0/29", "blockSize": int64(29), "nodeSelector": "all()",
		"allowedUses": []any{"Workload"}}
	block := map[string]any{"cidr": "10.245.0.0/29", "affinity": "host:node-a", "allocations": given,
		"attributes": attributes, "unallocated": []any{}}
	config := map[string]any{}
	change(pool, block, config)
	s.Pools.Value = cluster.Specs{"small": pool, "default-ipv4-ippool": {"cidr": "10.244.0.0/16", "disabled": true}}
	s.IPAM.Value.Config = config
	s.Blocks.Value.Specs = cluster.Specs{"10-245-0-0-29": block,
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
		"claims no new blocks": {func(p, _,
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
		s := clustertest.PlacedOn(cluster.EventSandbox, saidFull,
			clustertest.Hanging("a", 44*time.Second, "ContainerCreating", ""))
		s.Nodes = append(s.Nodes, clustertest.Node("node-b", "10.0.0.2", ""))
		s.Node = &s.Nodes[0]
		fullPool(s, c.change)
		if s.IPAM.Value.Config["reserve"] == true {
			c := clustertest.ServerOf(t, map[string]string{
				"/apis/crd.projectcalico.org/v1/ipreservations": `{"kind":"List","items":[{"metadata":{"name":"r"},"spec":{"reservedCIDRs":["10.245.0.2/31","10.9.0.0/16"]}}]}`,
			}, nil)
			config := s.IPAM.Value.Config
			s.IPAM.Value, s.IPAM.Err = c.ReadIPAM(t.Context())
			s.IPAM.Value.Config = config
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
	// IPAM's messages if no pool selects the node, and if no pool is enabled (v3.32).
	for _, says := range []string{"no configured Calico pools for node node-a", "cannot find a qualified ippool"} {
		two := clustertest.PlacedOn(cluster.EventSandbox, saidSandbox+`plugin type="calico" failed (add): `+says,
			clustertest.Hanging("a", 44*time.Second, "ContainerCreating", ""),
			clustertest.Hanging("b", 44*time.Second, "ContainerCreating", ""))
		two.Placed.Waiting.Value[1].Pod.Namespace = "team-b" // a single namespace: TestTenantsFamily
		fullPool(two, func(_, _, _ m) {})
		got := ask(t, two, facts.CheckPodsStart)
		if len(got) != 1 || got[0].Status != probe.Fail || got[0].Facts[facts.AddressesOfPod] != 6 ||
			got[0].Facts[facts.Short] != facts.ShortNoPool || got[0].Facts[facts.OtherPools] == nil {
			t.Errorf("%s, IPv6 is requested and only IPv4 has a pool: %v", says, got)
		}
	}
	s := clustertest.PlacedOn("", "")
	if _, known := roomFor(s, false); known {
		t.Error("counted the space of another IPAM")
	}
}
