package cause

import (
	"fmt"
	"strings"

	"github.com/calico-probe/calico-probe/internal/diagnose"
	"github.com/calico-probe/calico-probe/internal/subject/bgp"
	"github.com/calico-probe/calico-probe/internal/subject/evidence"
	"github.com/calico-probe/calico-probe/internal/subject/link"
	"github.com/calico-probe/calico-probe/probe"
)

// addressTwice matches an address for which two machines answer on the link.
func addressTwice(f diagnose.Findings) []diagnose.Case {
	var out []diagnose.Case
	for _, r := range f.Of(link.NodeNeighbours.ID) {
		macs := diagnose.ListOf(r, link.FactTwins)
		if len(macs) == 0 {
			continue
		}
		macs = macs[:min(len(macs), evidence.MostNamed)]
		other, address := diagnose.NodeOf(r), ""
		for _, word := range strings.Fields(r.Target) {
			if strings.Count(word, ".") == 3 {
				address = word
			}
		}
		c := diagnose.Case{About: address, Peer: other, Family: diagnose.FamilyOf(r),
			For: diagnose.Proves([]diagnose.Finding{r}),
			Args: map[string]diagnose.Arg{"address": diagnose.AddressArg(address),
				"device": diagnose.DeviceArg(r.Facts.Str(probe.FactInterface)),
				"mac":    diagnose.CheckedArg(macs[0], diagnose.IsWord(strings.ReplaceAll(macs[0], ":", "")), "MAC"),
				"other":  diagnose.NodeArg(f.Node)},
			Says: fmt.Sprintf("another machine on the link (MAC %s) answers for %s, the address of {node}", strings.Join(macs, ", "), address),
		}
		if other != "" {
			lost := diagnose.Keep(evidence.BadPaths(f, 4, evidence.AllPaths),
				func(p diagnose.Finding) bool { return diagnose.NodeOf(p) == other })
			lost = append(lost, diagnose.Keep(f.Bad(bgp.BGPSession.ID),
				func(p diagnose.Finding) bool { return diagnose.NodeOf(p) == other })...)
			if len(lost) == 0 {
				continue // one machine with two NICs is healthy
			}
			c.For = append(diagnose.Suggests([]diagnose.Finding{r}), diagnose.Suggests(lost)...)
			c.Args["other"] = diagnose.NodeArg(other)
			c.Covers = evidence.PathFollows(f, 4, other)
			c.Says = fmt.Sprintf("%d machines on the link answer for %s, the address of %s: MACs %s", len(macs), address, other, strings.Join(macs, ", "))
		}
		out = append(out, c)
	}
	return out
}
