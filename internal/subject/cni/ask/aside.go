package ask

import (
	"path"
	"strings"

	"github.com/calico-probe/calico-probe/probe"
)

// renamedConfig returns a Calico configuration that another program has renamed. For example, Cilium renames such files
// to take over the folder. If there is none, it returns "".
func renamedConfig(h *probe.Host, dir string) string {
	names, err := h.ReadDir(dir)
	if err != nil {
		return ""
	}
	for _, name := range names {
		if strings.Contains(name, "calico.conflist") && path.Ext(name) != ".conflist" {
			return probe.OneLine(name)
		}
	}
	return ""
}
