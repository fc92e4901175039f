package api

import (
	"errors"
	"fmt"
	"testing"

	"github.com/calico-probe/calico-probe/internal/cluster"
	"github.com/calico-probe/calico-probe/internal/cluster/clustertest"
	"github.com/calico-probe/calico-probe/internal/netpolicy"
	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/probe/facts"
)

// TestHostEndpoints expects the ports of the node that a HostEndpoint certainly blocks, and no others.
func TestHostEndpoints(t *testing.T) {
	type m = map[string]any
	in, all := []any{"Ingress"}, []any{m{"action": "Allow"}}
	both := []any{"Ingress", "Egress"}
	to := func(ports ...any) m { return m{"action": "Allow", "protocol": "TCP", "destination": m{"ports": ports}} }
	recorded := cluster.HostEndpoint{Name: "a-eth0", Node: "a", Device: "eth0", Addrs: []string{"10.0.0.1"}}
	of := func(change func(*cluster.HostEndpoint)) cluster.HostEndpoint { h := recorded; change(&h); return h }
	everywhere := func(h *cluster.HostEndpoint) { h.Device = "*" }
	profiles := []string{"projectcalico-default-allow"}
	for name, c := range map[string]struct {
		host     cluster.HostEndpoint
		policies map[string]m
		felix    m
		status   probe.Status
		ports    string
	}{
		"recorded: no policy": {recorded, nil, nil, probe.Warn, "[10250]"},
		"one for others": {recorded, map[string]m{"p": {"selector": "role == 'x'", "types": in,
			"ingress": []any{m{"action": "Allow"}}}}, nil, probe.Warn, "[10250]"},
		"ssh alone": {recorded, map[string]m{"p": {"types": in, "ingress": []any{to(int64(22))}}}, nil,
			probe.Warn, "[10250]"},
		"UDP alone": {recorded, map[string]m{"p": {"types": in, "ingress": []any{m{"action": "Allow",
			"protocol": "UDP"}}}}, nil, probe.Warn, "[10250]"},
		"of pods alone": {recorded, map[string]m{"p": {"types": in, "preDNAT": true,
			"ingress": []any{m{"action": "Allow"}}}}, nil, probe.Warn, "[10250]"},
		"failsafe ports set": {recorded, nil, m{"failsafeInboundHostPorts": []any{m{"protocol": "tcp",
			"port": int64(22)}}}, probe.Warn, "[10250 6443 179]"},
		"failsafe, and nothing out": {recorded, nil, m{"failsafeInboundHostPorts": []any{m{"port": int64(10250)},
			m{"port": int64(22)}, m{"port": int64(179)}, m{"port": int64(6443)}}}, probe.Warn, "[]"},
		// Seen on Calico v3.32.1: without an egress policy, all of the node's own outgoing traffic is dropped.
		"nothing out": {recorded, map[string]m{"p": {"types": in, "ingress": all}}, nil, probe.Warn, "[]"},
		"some out": {recorded, map[string]m{"p": {"types": both, "ingress": all, "egress": []any{to(int64(6443))}}}, nil,
			probe.Warn, "[]"},
		"near: other failsafe ports": {recorded, map[string]m{"p": {"types": in, "ingress": all}},
			m{"failsafeOutboundHostPorts": []any{m{"port": int64(443)}}}, probe.OK, "<nil>"},
		"near: let in": {recorded, map[string]m{"p": {"types": both, "egress": all, "ingress": []any{to("10000:10300",
			int64(443))}}}, nil, probe.OK, "<nil>"},
		"near: from some": {recorded, map[string]m{"p": {"types": both, "egress": all, "ingress": []any{m{"action": "Allow",
			"source": m{"nets": []any{"10.0.0.0/8"}}}}}}, nil, probe.OK, "<nil>"},
		// Seen on Calico v3.32.1 with only the nodes' network allowed: Felix, exec and attach are unreachable.
		"recorded: every interface": {of(everywhere), map[string]m{"p": {"types": both, "egress": all, "ingress": []any{
			m{"action": "Allow", "source": m{"nets": []any{"10.0.0.0/8", "192.0.2.1"}}}}}}, nil, probe.Warn, "[] home"},
		"near: loopback let in": {of(everywhere), map[string]m{"p": {"types": both, "egress": all, "ingress": []any{
			m{"action": "Allow", "source": m{"nets": []any{"10.0.0.0/8", "127.0.0.0/8"}}}}}}, nil, probe.OK, "<nil>"},
		"near: from a net that is none": {of(everywhere), map[string]m{"p": {"types": both, "egress": all, "ingress": []any{
			m{"action": "Allow", "source": m{"nets": []any{"10.0.0.0/x"}}}}}}, nil, probe.OK, "<nil>"},
		"near: a profile": {of(func(h *cluster.HostEndpoint) { h.Profiles = profiles }), nil, nil, probe.OK, "<nil>"},
		"near: of others": {of(func(h *cluster.HostEndpoint) { h.Node = "b" }), nil, nil, probe.OK, "<nil>"},
	} {
		s := clustertest.Snapshot(clustertest.Node("a", "10.0.0.1", ""))
		s.HostEndpoints.Value, s.Felix.Value = []cluster.HostEndpoint{c.host}, c.felix
		for name, spec := range c.policies {
			s.Policies.List = append(s.Policies.List, netpolicy.OfCalico("GlobalNetworkPolicy", name, spec))
		}
		s.Policies.Sort()
		got := ask(t, s, facts.CheckHostEndpoints)
		shut := ""
		if len(got) == 1 {
			shut = fmt.Sprint(got[0].Facts[facts.ShutPorts])
			if got[0].Facts[facts.ShutLoopback] == true {
				shut += " home"
			}
		}
		if len(got) != 1 || got[0].Status != c.status || shut != c.ports {
			t.Errorf("%s: %v, want %s %s", name, got, c.status, c.ports)
		}
	}
	s := clustertest.Snapshot(clustertest.Node("a", "10.0.0.1", ""))
	s.HostEndpoints.Value, s.Policies.Unread = []cluster.HostEndpoint{recorded}, errors.New("refused")
	clustertest.WantFirst(t, ask(t, s, facts.CheckHostEndpoints), probe.Unknown, "is unknown: refused")
}

// TestFailsafe reads Felix's variable.
func TestFailsafe(t *testing.T) {
	for text, want := range map[string]string{
		"tcp:22,udp:68, tcp:10250": "[22 10250] true", "none": "[] true", "22,179": "[22 179] true",
		"tcp:10.0.0.0/8:22": "[22] false",
	} {
		ports, whole := failsafeOf(text)
		if got := fmt.Sprint(ports, whole); got != want {
			t.Errorf("%s: %s, want %s", text, got, want)
		}
	}
}
