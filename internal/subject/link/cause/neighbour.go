package cause

import (
	"fmt"

	"github.com/calico-probe/calico-probe/internal/diagnose"
	"github.com/calico-probe/calico-probe/internal/subject/evidence"
	"github.com/calico-probe/calico-probe/internal/subject/link"
	"github.com/calico-probe/calico-probe/internal/subject/route"
	"github.com/calico-probe/calico-probe/probe"
)

// neighbourWrong is an entry of the ARP or NDP table that leads past the node it is about.
var neighbourWrong = &diagnose.Rule{
	ID: "neighbour-wrong", Layer: diagnose.LayerKernel, Title: "packets for another node go to the wrong MAC address",
	Doc: `On one link, packets go to the MAC address that the table of neighbours has for the other node (ip neigh). A permanent entry that somebody made ("ip neigh add ... nud permanent", /etc/ethers, a tool against ARP spoofing) stays as it is when the other machine gets another network card. And two virtual machines that are copies of one have one MAC address: the switch sends the packets of both to the one that spoke last.
Told from a node that is down by the entry itself: an entry of the kernel's own goes away when nobody answers.`,
	Fix: probe.Fix{
		Says: "Delete the entry if the other node has another MAC address. If both machines have the same one, change it on one of them.",
		Manifest: []string{"ssh {node} ip neigh show {address}",
			"ssh {other} ip -br link"},
		OnlyIf: []probe.Conditional{
			{If: "the entry is permanent, and the other node has another MAC address (remove it from what adds it at boot as well)",
				Manifest: []string{"ssh {node} sudo ip neigh del {address} dev {device}"}},
			{If: "both machines have the same MAC address",
				Manifest: []string{"# give one of the virtual machines another one in its hypervisor; it has to be started again for it"}},
		},
		Radius: "reading changes nothing; without the entry the kernel asks the link who has the address, at the next packet",
	},
	RuledOut: []string{link.NodeUplink.ID, route.RouteCanReach.ID},
	Explains: []string{"peer-down", "peer-pods", "peer-nodeports", "bgp-filtered", "bgp-waits", "node-unreachable",
		"service-path-broken", "dns-down"},
	Match: func(f diagnose.Findings) []diagnose.Case {
		var out []diagnose.Case
		for _, r := range f.Of(link.NodeNeighbours.ID) {
			mac, address := r.Facts.Str(link.FactMAC), diagnose.LastWord(r.Target)
			if mac == "" || address == "" {
				continue
			}
			device := r.Facts.Str(probe.FactInterface)
			lost := diagnose.Keep(f.Failed(link.NodePing.ID), func(p diagnose.Finding) bool {
				return p.From == "" && !evidence.Arrived(p) &&
					p.Target == r.Target
			})
			own, _ := r.Facts[link.FactOwnMAC].(bool)
			if len(lost) == 0 {
				continue
			}
			c := diagnose.Case{
				About: diagnose.NodeOf(r), Peer: diagnose.NodeOf(r), Family: diagnose.FamilyOf(r),
				For: append(diagnose.Suggests([]diagnose.Finding{r}), diagnose.Suggests(lost)...),
				Args: map[string]diagnose.Arg{"address": diagnose.AddressArg(address), "device": diagnose.DeviceArg(device),
					"other": diagnose.NodeArg(diagnose.NodeOf(r))},
				Says: fmt.Sprintf("a permanent entry on {node} sends packets for %s (%s) to MAC %s, and nobody answers there",
					diagnose.NodeOf(r), address, mac),
				Covers: append(evidence.PathFollows(f, diagnose.FamilyOf(r), diagnose.NodeOf(r)),
					diagnose.Covers(link.NodeNeighbours.ID)...),
			}
			if own {
				c.Says = fmt.Sprintf("%s (%s) answers on the link with the MAC address of {node}'s own %s, %s: two machines have one",
					diagnose.NodeOf(r), address, device, mac)
				c.For = append(diagnose.Proves([]diagnose.Finding{r}), diagnose.Suggests(lost)...)
			}
			out = append(out, c)
		}
		return out
	},
}
