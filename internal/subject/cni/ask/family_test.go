package ask

import (
	"testing"

	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/probe/checktest"
)

// TestCNIFamily has a network that requests both families, and the pools of an API (projectcalico/cni-plugin#598).
func TestCNIFamily(t *testing.T) {
	t.Parallel()
	files := map[string]string{"opt/cni/bin/calico": "#!", "opt/cni/bin/calico-ipam": "#!",
		"etc/cni/net.d/10-calico.conflist": `{"name":"k8s-pod-network","plugins":[{"type":"calico",` +
			`"ipam":{"type":"calico-ipam","assign_ipv4":"true","assign_ipv6":"true"}}]}`}
	pool := func(cidr string, attrs map[string]string) probe.Target {
		return probe.Target{Kind: probe.KindPool, Name: cidr, Attrs: attrs}
	}
	off := map[string]string{probe.AttrDisabled: "true"}
	for name, c := range map[string]struct {
		pools  []probe.Target
		status probe.Status
		saw    string
	}{
		"one family": {[]probe.Target{pool("10.244.0.0/16", nil)}, probe.Fail, "it requests IPv6 addresses, and Calico has no enabled IPv6 pool"},
		"disabled": {[]probe.Target{pool("10.244.0.0/16", off), pool("fd00:10:244::/56", nil)}, probe.Fail,
			"it requests IPv4 addresses"},
		"both":    {[]probe.Target{pool("10.244.0.0/16", nil), pool("fd00:10:244::/56", nil)}, probe.OK, "is used"},
		"none":    {[]probe.Target{pool("10.244.0.0/16", off)}, probe.OK, "is used"},
		"unknown": {nil, probe.OK, "is used"},
	} {
		t.Run(name, func(t *testing.T) {
			targets := append(c.pools, probe.Target{Kind: probe.KindRuntime, Name: "containerd://2.4.2"})
			checktest.Want(t, checktest.Run(t, cniConfigCheck, checktest.Node(t, files), targets...), "", c.status, c.saw)
		})
	}
}
