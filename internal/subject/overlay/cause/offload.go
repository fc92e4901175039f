package cause

import (
	"fmt"

	"github.com/calico-probe/calico-probe/internal/diagnose"
	"github.com/calico-probe/calico-probe/internal/subject/evidence"
	"github.com/calico-probe/calico-probe/internal/subject/firewall"
	"github.com/calico-probe/calico-probe/internal/subject/overlay"
	"github.com/calico-probe/calico-probe/internal/subject/pod"
	"github.com/calico-probe/calico-probe/internal/subject/route"
	"github.com/calico-probe/calico-probe/probe"
)

// vxlanOffload is projectcalico/calico#3145.
var vxlanOffload = &diagnose.Rule{
	ID: "vxlan-offload", Layer: diagnose.LayerRoutes, Title: "tunnel checksum offload is broken: pings pass, TCP does not",
	Doc: `A VXLAN device may leave the checksums of the packets inside to the card below, or to the kernel. Cards and drivers that get it wrong for packets in a tunnel (vmxnet3, some Intel and Broadcom ones), and kernels before 5.8 for packets whose address was rewritten, send them with a wrong checksum, and the other end drops them without a word. Pings of ICMP are summed by software, so they arrive; TCP and UDP to pods of other nodes do not (projectcalico/calico#3145).
Told from a filtered tunnel by the pings, which have the same tunnel; from a policy and a firewall only in part: those may let pings alone through too, so this is medium at most. Felix switches the offload of its device off on kernels up to 5.7; newer ones are thought to be whole.`,
	Fix: probe.Fix{
		Says: "Switch the offload of the tunnel's device off and see whether connections pass; keep it off by Felix's own setting.",
		Manifest: []string{
			"ssh {node} 'ethtool -k {device} | grep tx-checksum; nstat -az TcpInCsumErrors UdpInCsumErrors'  # the second one on the other node: it grows",
		},
		OnlyIf: []probe.Conditional{{If: "it is on", Manifest: []string{"ssh {node} sudo ethtool -K {device} tx-checksum-ip-generic off",
			`kubectl patch felixconfigurations.crd.projectcalico.org default --type merge -p '{"spec":{"featureDetectOverride":"ChecksumOffloadBroken=true"}}'  # where it helped, for every node and for good`}}},
		Radius: "packets of this node's tunnel are summed by its CPU from then on; Felix's setting does so on every node",
	},
	Explains: []string{"peer-pods", "peer-nodeports", "service-path-broken", "dns-down"},
	RuledOut: []string{pod.PodMTU.ID, firewall.NodeFirewall.ID},
	Match: func(f diagnose.Findings) []diagnose.Case {
		var out []diagnose.Case
		for _, tunnel := range f.Of(overlay.OverlayTunnels.ID) {
			if tunnel.Status != probe.OK || tunnel.Facts[overlay.FactSumsLater] != true {
				continue
			}
			var lost, pings []diagnose.Finding
			passes := false
			for _, r := range f.Of(pod.PodTCP.ID) {
				way, _ := diagnose.Answer(f, route.RouteCanReach.ID, r.Target)
				ping, _ := diagnose.Answer(f, pod.PodPing.ID, r.Target)
				switch {
				case r.From != "" || way.Facts.Str(probe.FactInterface) != tunnel.Target:
				case r.Status == probe.OK:
					passes = true
				case r.Status == probe.Fail && diagnose.ReasonOf(r) == "timeout" && ping.Status == probe.OK:
					lost, pings = append(lost, r), append(pings, ping)
				}
			}
			if len(lost) == 0 || passes {
				continue
			}
			out = append(out, diagnose.Case{About: tunnel.Target, Family: diagnose.FamilyOf(lost[0]),
				Covers: evidence.OverPods(f),
				Args: map[string]diagnose.Arg{"device": diagnose.CheckedArg(tunnel.Target, diagnose.IsWord(tunnel.Target),
					"vxlan.calico")},
				Says: fmt.Sprintf("pods of other nodes answer pings of {node} by %s and take no connection, and that device leaves checksums to what is below it",
					tunnel.Target),
				For: append(diagnose.Suggests(lost), diagnose.Shows(pings[:1], []diagnose.Finding{tunnel})...)})
		}
		return out
	},
}
