package ask

import (
	"testing"

	"github.com/calico-probe/calico-probe/internal/subject/overlay"
	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/probe/kernel"
	"github.com/calico-probe/calico-probe/probe/node"
)

// TestAddConflict names another CNI's device that occupies the VNI or port of Calico's.
func TestAddConflict(t *testing.T) {
	t.Parallel()
	none := probe.Found(probe.Fail, "interface vxlan.calico does not exist")
	for name, c := range map[string]struct {
		link kernel.Link
		set  node.TunnelSettings
		want string
	}{
		"recorded": {kernel.Link{Name: "flannel.1", VXLAN: &kernel.VXLAN{VNI: 4096, Port: 4789}},
			node.TunnelSettings{VNI: 4096, Port: 4789}, "flannel.1"},
		"settings unknown": {kernel.Link{Name: "flannel.1", VXLAN: &kernel.VXLAN{VNI: 4096, Port: 4789}},
			node.TunnelSettings{}, "flannel.1"},
		"every VNI": {kernel.Link{Name: "cilium_vxlan", VXLAN: &kernel.VXLAN{Port: 4789, External: true}},
			node.TunnelSettings{}, "cilium_vxlan"},
		"near: another VNI": {kernel.Link{Name: "flannel.1", VXLAN: &kernel.VXLAN{VNI: 1, Port: 4789}},
			node.TunnelSettings{}, ""},
		"near: another port": {kernel.Link{Name: "flannel.1", VXLAN: &kernel.VXLAN{VNI: 4096, Port: 8472}},
			node.TunnelSettings{}, ""},
		"near: Calico's own": {kernel.Link{Name: "vxlan.calico", VXLAN: &kernel.VXLAN{VNI: 4096, Port: 4789}},
			node.TunnelSettings{}, ""},
		"near: no VXLAN": {kernel.Link{Name: "eth0"}, node.TunnelSettings{}, ""},
	} {
		r := addConflict(none, node.Encapsulations[1], c.set, []kernel.Link{c.link})
		if r.Facts.Str(overlay.FactForeign) != c.want {
			t.Errorf("%s: %v", name, r)
		}
	}
}
