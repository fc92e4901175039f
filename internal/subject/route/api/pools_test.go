package api

import (
	"net/netip"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/calico-probe/calico-probe/internal/cluster"
	"github.com/calico-probe/calico-probe/internal/cluster/clustertest"
	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/probe/facts"
)

// TestIPPools expects reports of overlapping ranges, and of pods without NAT that BGP does not advertise outside.
func TestIPPools(t *testing.T) {
	pool := func(cidr string, more ...any) cluster.Specs {
		spec := map[string]any{"cidr": cidr, "natOutgoing": true}
		for i := 0; i+1 < len(more); i += 2 {
			spec[more[i].(string)] = more[i+1]
		}
		return cluster.Specs{"p": spec}
	}
	svc := corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web"},
		Spec: corev1.ServiceSpec{ClusterIPs: []string{"10.96.0.7"}}}
	router := cluster.Specs{"tor": {"peerIP": "10.88.0.254", "asNumber": int64(64600)}}
	for name, c := range map[string]struct {
		pools  cluster.Specs
		blocks []cluster.Block
		peers  cluster.Specs
		status probe.Status
		saw    string
		told   any
	}{
		"well": {pool("10.244.0.0/16"), nil, nil, probe.OK, "does not overlap any node or Service", nil},
		"nodes in it": {pool("10.88.0.0/16"), nil, nil,
			probe.Info, "contains addresses of nodes: a 10.88.0.11, b 10.88.0.12", nil},
		"a node in a block": {pool("10.88.0.0/16"), []cluster.Block{{CIDR: netip.MustParsePrefix("10.88.0.0/26"),
			Node: "c"}}, nil,
			probe.Fail, "of node c contains the address of a", nil},
		"near: a block elsewhere": {pool("10.88.0.0/16"),
			[]cluster.Block{{CIDR: netip.MustParsePrefix("10.88.9.0/26"), Node: "c"}}, nil,
			probe.Info, "addresses of nodes", nil},
		"services in it": {pool("10.96.0.0/12"), nil, nil, probe.Info,
			"contains cluster IPs of Services: default/web 10.96.0.7", nil},
		"a service in a block": {pool("10.96.0.0/12"), []cluster.Block{{CIDR: netip.MustParsePrefix("10.96.0.0/26"),
			Node: "b"}}, nil,
			probe.Fail,
			"of node b contains the address of default/web", nil},
		"not masqueraded": {pool("10.244.0.0/16", "natOutgoing", false), nil, nil,
			probe.Info, "BGP advertises them to no router", false},
		"not masqueraded, in a tunnel": {pool("10.244.0.0/16", "natOutgoing", false, "vxlanMode", "Always"), nil, nil,
			probe.Warn, "BGP advertises them to no router", false},
		"near: a router knows": {pool("10.244.0.0/16", "natOutgoing", false), nil, router,
			probe.Info, "keep their addresses", true},
		"near: of other nodes": {pool("10.244.0.0/16", "natOutgoing", false, "nodeSelector", "zone == 'x'"), nil, nil,
			probe.OK, "does not overlap any node or Service", nil},
		"the API server in it": {pool("192.0.2.0/24"), nil, nil, probe.Warn, "contains the API server's address (192.0.2.7)", nil},
		"the API server in it, disabled": {pool("192.0.2.0/24", "disabled", true), nil, nil,
			probe.Warn, "including disabled ones", nil},
		"not exported": {pool("10.244.0.0/16", "disableBGPExport", true), nil, nil, probe.Warn, "BGP does not advertise its blocks", nil},
		"near: not exported, VXLAN": {pool("10.244.0.0/16", "disableBGPExport", true, "vxlanMode", "Always"), nil, nil,
			probe.OK, "does not overlap any node or Service", nil},
		"near: disabled": {pool("10.88.0.0/16", "disabled", true), nil, nil, probe.Skip, "no enabled", nil},
	} {
		s := clustertest.Snapshot(clustertest.Node("a", "10.88.0.11", "10.88.0.11/24"),
			clustertest.Node("b", "10.88.0.12", "10.88.0.12/24"))
		s.Pools.Value, s.Blocks.Value.Owned, s.Peering.Peers.Value = c.pools, c.blocks, c.peers
		s.AllServices.Value = []corev1.Service{svc}
		s.API.Value = []probe.Target{{Name: "endpoint", Addr: netip.MustParseAddr("192.0.2.7")}}
		got := ask(t, s, facts.CheckIPPools)
		clustertest.WantFirst(t, got, c.status, c.saw)
		if len(got) == 1 && (got[0].Facts[facts.AdvertisedOutside] != c.told ||
			c.status != probe.Skip && got[0].Facts[probe.FactFamily] != 4) {
			t.Errorf("%s: %v", name, got[0].Facts)
		}
		if c.told != nil && got[0].Facts[facts.APIOutside] != true {
			t.Errorf("%s: the API server is outside: %v", name, got[0].Facts)
		}
	}
}
