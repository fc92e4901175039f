package cause

import (
	"fmt"
	"strings"

	"github.com/calico-probe/calico-probe/internal/diagnose"
	"github.com/calico-probe/calico-probe/internal/subject/evidence"
	"github.com/calico-probe/calico-probe/internal/subject/route"
)

// duplicateAddress matches another node's address on an interface of this one.
func duplicateAddress(f diagnose.Findings) []diagnose.Case {
	var out []diagnose.Case
	for _, r := range f.Failed(route.RouteCanReach.ID) {
		device, address, peer := r.Facts.Str(route.FactOwnedBy), diagnose.LastWord(r.Target), diagnose.NodeOf(r)
		if device == "" || address == "" || evidence.OldNode(f, peer, address) {
			continue
		}
		whose := peer
		if whose == "" {
			whose = "the BGP peer " + strings.Fields(r.Target)[0]
		}
		c := diagnose.Case{
			About: strings.TrimSpace(peer + " " + address), Peer: peer, Family: diagnose.FamilyOf(r),
			Args: map[string]diagnose.Arg{"address": diagnose.AddressArg(address), "device": diagnose.DeviceArg(device),
				"other": diagnose.NodeArg(peer)},
			Says: fmt.Sprintf("%s, the address of %s, is also on %s of {node}", address, whose, device),
			For:  diagnose.Proves([]diagnose.Finding{r}), Covers: evidence.PathFollows(f, diagnose.FamilyOf(r), peer),
		}
		evidence.DetectedTwice(f, &c, peer, address)
		out = append(out, c)
	}
	return out
}
