package cause

import (
	"fmt"

	"github.com/calico-probe/calico-probe/internal/diagnose"
	"github.com/calico-probe/calico-probe/internal/subject/evidence"
	"github.com/calico-probe/calico-probe/internal/subject/felix"
	"github.com/calico-probe/calico-probe/internal/subject/link"
	"github.com/calico-probe/calico-probe/internal/subject/overlay"
	"github.com/calico-probe/calico-probe/probe"
)

// foreignTunnel is a device of another CNI where Calico's tunnel should be.
var foreignTunnel = &diagnose.Rule{
	ID: "foreign-tunnel", Layer: diagnose.LayerRoutes, Title: "another CNI's VXLAN device blocks the creation of Calico's",
	Doc: `The kernel makes no second VXLAN device with the same VNI and UDP port, and none beside one that takes every VNI of a port. A device that an earlier CNI left (flannel.1 with Calico's VNI 4096, cilium_vxlan) or that another one still uses keeps vxlan.calico from being made or from coming up; Felix tries again for ever. Nothing tunnelled comes through, while the nodes ping each other.
Told from a Felix that hangs by the other device, which the kernel shows with its VNI and port.`,
	Fix: probe.Fix{
		Says: "Where the other CNI is gone, delete its device and what makes it again at boot; Felix makes its own within seconds. Else give one of the two another port or VNI.",
		Manifest: []string{"ssh {node} ip -d link show {device}",
			"ssh {node} ls /etc/cni/net.d /run/flannel /etc/systemd/network"},
		OnlyIf: []probe.Conditional{
			{If: "nothing uses {device} any more", Manifest: []string{"ssh {node} sudo ip link del {device}"}},
			{If: "both are used", Manifest: []string{`kubectl patch felixconfigurations.crd.projectcalico.org default --type=merge -p '{"spec":{"vxlanVNI":4097}}'`}},
		},
		Radius: "deleting: this node, and what still goes through that device; another VNI: the tunnel of every node, until all have it",
	},
	RuledOut: []string{link.NodePing.ID, felix.FelixLive.ID},
	Explains: []string{"tunnel-device", "tunnel-peers", "tunnel-filtered", "peer-pods", "route-not-made"},
	Match: func(f diagnose.Findings) []diagnose.Case {
		var out []diagnose.Case
		for _, r := range f.Failed(overlay.OverlayTunnels.ID) {
			if device := r.Facts.Str(overlay.FactForeign); device != "" {
				out = append(out, diagnose.Case{
					About: device, Family: diagnose.FamilyOf(r), Args: map[string]diagnose.Arg{"device": diagnose.DeviceArg(device)},
					Says: fmt.Sprintf("a device of another CNI keeps %s of {node} from carrying anything: %s", r.Target, r.Saw),
					For:  diagnose.Proves([]diagnose.Finding{r}), Covers: evidence.OverPods(f),
				})
			}
		}
		return out
	},
}
