package checks

import (
	"testing"

	"github.com/calico-probe/calico-probe/probe"
)

// TestKubeletState wants a state that is of another policy than is configured, and no other.
func TestKubeletState(t *testing.T) {
	t.Parallel()
	const none, static = `{"policyName":"none","defaultCpuSet":"","checksum":1353318690}`, `{"policyName":"static","defaultCpuSet":"0-1"}`
	for name, c := range map[string]struct {
		cpu, memory string
		of          kubelet
		status      probe.Status
		says        bool
	}{
		"another policy":           {none, "", kubelet{CPUManagerPolicy: "static"}, probe.Fail, true},
		"it still runs":            {none, "", kubelet{CPUManagerPolicy: "static", pid: 7}, probe.Warn, true},
		"the policy is gone":       {static, "", kubelet{}, probe.Fail, true},
		"of memory":                {none, `{"policyName":"Static"}`, kubelet{}, probe.Fail, true},
		"near: the same":           {static, `{"policyName":"None"}`, kubelet{CPUManagerPolicy: "static"}, "", false},
		"near: nothing is saved":   {"", "", kubelet{CPUManagerPolicy: "static"}, "", false},
		"near: not to be read":     {"{", "", kubelet{CPUManagerPolicy: "static"}, "", false},
		"near: as kubelets come":   {none, `{"policyName":"None"}`, kubelet{}, "", false},
		"near: no policy is in it": {"{}", "", kubelet{CPUManagerPolicy: "static"}, "", false},
	} {
		files := map[string]string{}
		if c.cpu != "" {
			files["var/lib/kubelet/cpu_manager_state"] = c.cpu
		}
		if c.memory != "" {
			files["var/lib/kubelet/memory_manager_state"] = c.memory
		}
		h := node(t, files)
		r, ok := savedState(h, c.of)
		if ok != c.says || ok && r.Status != c.status {
			t.Errorf("%s: %t %+v", name, ok, r)
		}
	}
}
