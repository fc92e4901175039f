package ask

import (
	"path"
	"strings"

	"github.com/calico-probe/calico-probe/probe"
)

// renamedConfig is a configuration of Calico that another program renamed, as Cilium does to own the folder, "" if none
// exists.
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
