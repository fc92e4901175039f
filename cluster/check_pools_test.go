package cluster

import (
	"errors"
	"net/netip"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/probe/facts"
)

// TestPools wants a pool with addresses of nodes or Services in it told from one without, and natOutgoing said.
func TestPools(t *testing.T) {
	t.Parallel()
	type m = map[string]any
	pool := func(cidr string) m { return m{"cidr": cidr, "natOutgoing": true} }
	off := m{"cidr": "10.0.0.0/16", "disabled": true}
	for name, c := range map[string]struct {
		pools  map[string]m
		change func(*Snapshot)
		status probe.Status
		saw    string
		of     string
	}{
		"well":            {map[string]m{"p": pool("10.244.0.0/16")}, nil, probe.OK, "no node and no Service", ""},
		"not masqueraded": {map[string]m{"p": {"cidr": "10.244.0.0/16"}}, nil, probe.Info, "natOutgoing is off", ""},
		"nodes' network":  {map[string]m{"p": pool("10.0.0.0/16")}, nil, probe.Warn, "a 10.0.0.1", facts.OverlapsNodes},
		"Services": {map[string]m{"p": pool("10.96.0.0/12")}, nil, probe.Warn, "kube-system/kube-dns 10.96.0.10",
			facts.OverlapsServices},
		"near: disabled": {map[string]m{"p": off, "q": pool("10.244.0.0/16")}, nil, probe.OK, "10.244.0.0/16", ""},
		"near: another IPAM": {map[string]m{"p": pool("10.0.0.0/16")}, func(s *Snapshot) { s.blocks = nil }, probe.Skip,
			"no block", ""},
		"not read":    {nil, func(s *Snapshot) { s.poolErr = errors.New("no answer") }, probe.Unknown, "no answer", ""},
		"etcd of its": {nil, func(s *Snapshot) { s.poolErr = errors.New(probe.GapEtcd) }, probe.Skip, "etcd", ""},
	} {
		s := snapshot(node("a", "10.0.0.1", "10.0.0.1/24"), node("b", "10.0.0.2", "10.0.0.2/24"))
		s.pools = c.pools
		s.blocks = []block{{cidr: netip.MustParsePrefix("10.244.1.0/26"), node: "a"}}
		dns := metav1.ObjectMeta{Name: "kube-dns", Namespace: "kube-system"}
		s.allServices = []corev1.Service{{ObjectMeta: dns, Spec: corev1.ServiceSpec{ClusterIPs: []string{"10.96.0.10"}}}}
		if c.change != nil {
			c.change(s)
		}
		got := ask(t, s, facts.CheckPools)
		wantFirst(t, got, c.status, c.saw)
		if len(got) != 1 || got[0].Facts.Str(facts.PoolOverlaps) != c.of {
			t.Errorf("%s: %+v", name, got)
		}
	}
}
