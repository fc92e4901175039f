package cause

import (
	"fmt"

	"github.com/calico-probe/calico-probe/internal/diagnose"
	"github.com/calico-probe/calico-probe/internal/subject/evidence"
	"github.com/calico-probe/calico-probe/internal/subject/link"
	"github.com/calico-probe/calico-probe/probe"
)

// neighbourWrong is an entry of the ARP or NDP table that leads past the node it is about.
func neighbourWrong(f diagnose.Findings) []diagnose.Case {
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
}
