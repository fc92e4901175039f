package ask

import (
	"cmp"
	"encoding/json"
	"path"

	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/probe/node"
)

// factStateFile is the path of a file with a manager's state that is of another policy than is configured.
const factStateFile probe.Fact = "state_file"

// savedState compares what the kubelet's CPU and memory managers have saved with the policies of its configuration:
// a kubelet ends at its start where they differ (kubernetes, pkg/kubelet/cm/cpumanager/state/state_checkpoint.go and
// memorymanager's). False where nothing is saved, or they are the same.
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
			continue // without the file the kubelet begins anew
		}
		r := probe.Found(probe.Fail, "%s is of the %s's policy %q, and the kubelet's configuration says %q: a kubelet ends at its start for that",
			name, m.what, probe.Quoted(saved.Policy), m.configured)
		if k.PID != 0 {
			r.Status = probe.Warn
		}
		return r.With(factStateFile, name), true
	}
	return probe.Result{}, false
}
