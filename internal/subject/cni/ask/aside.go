package ask

import (
	"path"
	"strings"

	"github.com/calico-probe/calico-probe/probe"
)

// setAside is a configuration of Calico's that something renamed, as Cilium does to have the folder for itself; ""
// where there is none.
func setAside(h *probe.Host, dir string) string {
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
