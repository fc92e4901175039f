package ask

import (
	"testing"

	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/probe/checktest"
	"github.com/calico-probe/calico-probe/probe/node"
)

// TestKubeletState expects a result only about a state file with another policy than the configured one.
func TestKubeletState(t *testing.T) {
	t.Parallel()
	const none, static = `{"policyName":"none","defaultCpuSet":"","checksum":1353318690}`, `{"policyName":"static","defaultCpuSet":"0-1"}`
	for name, c := range map[string]struct {
		cpu, memory string
		of          node.Kubelet
		status      probe.Status
		differs     bool
	}{
		"another policy":        {none, "", node.Kubelet{CPUManagerPolicy: "static"}, probe.Fail, true},
		"it still runs":         {none, "", node.Kubelet{CPUManagerPolicy: "static", PID: 7}, probe.Warn, true},
		"the policy is gone":    {static, "", node.Kubelet{}, probe.Fail, true},
		"of memory":             {none, `{"policyName":"Static"}`, node.Kubelet{}, probe.Fail, true},
		"near: the same":        {static, `{"policyName":"None"}`, node.Kubelet{CPUManagerPolicy: "static"}, "", false},
		"near: no state file":   {"", "", node.Kubelet{CPUManagerPolicy: "static"}, "", false},
		"near: invalid JSON":    {"{", "", node.Kubelet{CPUManagerPolicy: "static"}, "", false},
		"near: the defaults":    {none, `{"policyName":"None"}`, node.Kubelet{}, "", false},
		"near: no policy in it": {"{}", "", node.Kubelet{CPUManagerPolicy: "static"}, "", false},
	} {
		files := map[string]string{}
		if c.cpu != "" {
			files["var/lib/kubelet/cpu_manager_state"] = c.cpu
		}
		if c.memory != "" {
			files["var/lib/kubelet/memory_manager_state"] = c.memory
		}
		h := checktest.Node(t, files)
		r, ok := savedState(h, c.of)
		if ok != c.differs || ok && r.Status != c.status {
			t.Errorf("%s: %t %+v", name, ok, r)
		}
	}
}
