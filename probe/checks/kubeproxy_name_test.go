package checks

import (
	"testing"

	"github.com/calico-probe/calico-probe/probe"
)

// TestProxyName has the configuration as kube-proxy v1.36 shows it at /configz.
func TestProxyName(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		configz string
		says    bool
		status  probe.Status
	}{
		"another":      {`{"kubeproxy.config.k8s.io":{"HostnameOverride":"node-a.example.internal","Mode":"nftables"}}`, true, probe.Fail},
		"its own":      {`{"kubeproxy.config.k8s.io":{"HostnameOverride":"node-a"}}`, true, probe.OK},
		"other case":   {`{"kubeproxy.config.k8s.io":{"hostnameOverride":"NODE-A"}}`, true, probe.OK},
		"near: none":   {`{"kubeproxy.config.k8s.io":{"HostnameOverride":""}}`, false, ""},
		"not a config": {`404 page not found`, false, ""},
	} {
		r, says := proxyNameIn([]byte(c.configz), "node-a")
		if says != c.says || r.Status != c.status {
			t.Errorf("%s: %v %v", name, says, r)
		}
	}
}
