package ask

import (
	"cmp"
	"encoding/json"
	"path"

	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/probe/node"
)

// factStateFile is the path of a state file whose policy differs from the policy configured for its manager.
const factStateFile probe.Fact = "state_file"

// savedState compares the state files of the kubelet's CPU and memory managers with the configured policies. If they
// differ, the kubelet exits when it starts (kubernetes, pkg/kubelet/cm/cpumanager/state/state_checkpoint.go and the
// same file of memorymanager). It returns false without saved state, or if the policies are the same.
func savedState(h *probe.Host, k node.Kubelet) (probe.Result, bool) {
	for _, m := range []struct{ file, what, configured string }{
		{"cpu_manager_state", "CPU manager", cmp.Or(k.CPUManagerPolicy, "none")},
		{"memory_manager_state", "memory manager", cmp.Or(k.MemoryPolicy, "None")},
	} {
		name := path.Join(node.KubeletRoot, m.file)
		text, err := h.ReadFile(name)
		var saved struct {
			Policy string `json:"policyName"`
		}
		if err != nil || json.Unmarshal(text, &saved) != nil || saved.Policy == "" || saved.Policy == m.configured {
			continue // if the file does not exist, the kubelet starts with a new state
		}
		r := probe.Found(probe.Fail, "%s has the %s's policy %q, but the kubelet is configured with %q, so it exits when it starts",
			name, m.what, probe.Quoted(saved.Policy), m.configured)
		if k.PID != 0 {
			r.Status = probe.Warn
		}
		return r.With(factStateFile, name), true
	}
	return probe.Result{}, false
}
