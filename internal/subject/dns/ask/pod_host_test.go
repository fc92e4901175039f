package ask

import (
	"testing"

	"github.com/calico-probe/calico-probe/internal/subject/dns"
	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/probe/checktest"
	"github.com/calico-probe/calico-probe/probe/node"
)

// TestKubeletGives checks that a kubelet without cluster DNS is reported, and name servers other than the Service.
func TestKubeletGives(t *testing.T) {
	t.Parallel()
	h := checktest.Node(t, map[string]string{"var/lib/kubelet/config.yaml": "clusterDNS: [127.0.0.1]\n"})
	got := checktest.Run(t, dnsClusterCheck, h, probe.Target{Kind: probe.KindDNS, Name: "service",
		Addr: checktest.Self("127.0.0.2").Addr, Port: 1})
	for _, r := range got {
		given, _ := r.Facts[dns.FactGiven].([]string)
		if (r.Facts.Str(probe.FactRole) == probe.RoleGiven) != (len(given) == 1) {
			t.Errorf("%+v", r)
		}
	}
	k := node.Kubelet{PID: 1, Config: "config.yaml"}
	if !k.GivesNone() {
		t.Error("a kubelet that runs with a configuration without clusterDNS")
	}
	for name, k := range map[string]node.Kubelet{
		"it gives one":                      {PID: 1, Config: "config.yaml", ClusterDNS: []string{"10.96.0.10"}},
		"its configuration is not visible":  {PID: 1},
		"it is part of k3s, with arguments": {Config: "config.yaml"},
	} {
		if k.GivesNone() {
			t.Error(name)
		}
	}
}
