package cause

import (
	"fmt"
	"slices"
	"strings"

	"github.com/calico-probe/calico-probe/internal/diagnose"
	"github.com/calico-probe/calico-probe/internal/subject/evidence"
	"github.com/calico-probe/calico-probe/internal/subject/link"
	"github.com/calico-probe/calico-probe/internal/subject/route"
	"github.com/calico-probe/calico-probe/probe"
)

// interfaceOverlapsNodes is a network of a bridge, a VPN or a second NIC that has the addresses of other nodes in it.
func interfaceOverlapsNodes(f diagnose.Findings) []diagnose.Case {
	var out []diagnose.Case
	for _, r := range f.Of(route.RouteCanReach.ID) {
		device, network := r.Facts.Str(probe.FactInterface), r.Facts.Str(route.FactMatch)
		if diagnose.NodeOf(r) == "" || r.From != "" || r.Facts.Str(route.FactRouteProto) != "kernel" ||
			r.Facts.Str(probe.FactRegistered) == "" || slices.Contains(uplinks(f, diagnose.FamilyOf(r)), device) {
			continue
		}
		lost := diagnose.Keep(f.Failed(link.NodePing.ID), func(p diagnose.Finding) bool {
			return p.From == "" && !evidence.Arrived(p) &&
				p.Target == r.Target
		})
		if len(lost) == 0 || len(uplinks(f, diagnose.FamilyOf(r))) == 0 {
			continue
		}
		address := diagnose.LastWord(r.Target)
		out = append(out, diagnose.Case{
			About: diagnose.NodeOf(r), Peer: diagnose.NodeOf(r), Family: diagnose.FamilyOf(r),
			Says: fmt.Sprintf("%s of {node} has network %s, which contains the address %s of %s: packets for it leave by %s and are lost",
				device, network, address, diagnose.NodeOf(r), device),
			For:  append(diagnose.Suggests([]diagnose.Finding{r}), diagnose.Suggests(lost)...),
			Args: map[string]diagnose.Arg{"device": diagnose.DeviceArg(device), "address": diagnose.AddressArg(address)},
			Covers: append(evidence.PathFollows(f, diagnose.FamilyOf(r), diagnose.NodeOf(r)),
				diagnose.Covers(link.NeighbourReach.ID)...),
		})
	}
	return out
}

// uplinks are the interfaces with the node's own address of a family.
func uplinks(f diagnose.Findings, family int) []string {
	var out []string
	for _, r := range f.Of(link.NodeUplink.ID) {
		if device, _, _ := strings.Cut(r.Target, " "); diagnose.FamilyOf(r) == family && device != "" {
			out = append(out, device)
		}
	}
	return out
}
