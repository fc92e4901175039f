package api

import (
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/calico-probe/calico-probe/internal/cluster"
	"github.com/calico-probe/calico-probe/internal/cluster/clustertest"
	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/probe/facts"
)

// TestTunnelSettings expects the settings that differ between nodes, and which node is the odd one.
func TestTunnelSettings(t *testing.T) {
	config := func(name, key string, v any) unstructured.Unstructured {
		return unstructured.Unstructured{Object: map[string]any{"metadata": map[string]any{"name": name},
			"spec": map[string]any{key: v}}}
	}
	vxlan := cluster.Specs{"p": {"cidr": "10.244.0.0/16", "vxlanMode": "Always"}}
	for name, c := range map[string]struct {
		configs []unstructured.Unstructured
		pools   cluster.Specs
		status  probe.Status
		saw     string
	}{
		"recorded": {[]unstructured.Unstructured{config("node.a", "vxlanPort", int64(4799))}, vxlan, probe.Fail,
			"vxlanPort is 4799 on this node (FelixConfiguration node.a) and 4789 on b, c"},
		"another node": {[]unstructured.Unstructured{config("node.b", "vxlanPort", int64(4799))},
			vxlan, probe.Warn, "and 4799 on b"},
		"near: for all": {[]unstructured.Unstructured{config("default", "vxlanPort", int64(4799))},
			vxlan, probe.OK, "match those"},
		"near: the default by name": {[]unstructured.Unstructured{config("node.a", "vxlanPort", int64(4789))},
			vxlan, probe.OK, "match those"},
		"near: no VXLAN": {[]unstructured.Unstructured{config("node.a", "vxlanPort", int64(4799))},
			nil, probe.OK, "match those"},
		"near: its log": {[]unstructured.Unstructured{config("node.a", "logSeverityScreen",
			"Debug")}, vxlan, probe.OK, "match those"},
	} {
		s := clustertest.Snapshot(clustertest.Node("a", "10.0.0.1", ""), clustertest.Node("b", "10.0.0.2", ""),
			clustertest.Node("c", "10.0.0.3", ""))
		s.FelixConfigs.Value, s.Pools.Value = c.configs, c.pools
		t.Run(name, func(t *testing.T) { clustertest.WantFirst(t, ask(t, s, facts.CheckTunnelSettings), c.status, c.saw) })
	}
}
