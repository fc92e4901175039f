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

// addressTwice is an address for which two machines answer on the link.
var addressTwice = &diagnose.Rule{
	ID: "address-twice", Layer: diagnose.LayerKernel, Title: "two machines on the link use the same IPv4 address",
	Doc: `Both answer ARP for the address, and each neighbour keeps the answer that came first, until it asks again. So connections to that node work from some machines and not from others, and change by themselves: BGP sessions flap, kubectl exec and logs end at the wrong machine, TLS fails with another name. It happens with a cloned virtual machine, a static address inside a DHCP range, a machine that was replaced and not switched off, an address that a failed keepalived left.
Told from one machine with two NICs on one link, which answers by both, by what is lost: there every packet arrives.`,
	Fix: probe.Fix{
		Says: "Find the machine with MAC {mac} and give it another address, or switch it off.",
		Manifest: []string{
			"ssh {node} sudo arping -D -c 3 -I {device} {address}  # each reply names a MAC",
			"ssh {other} ip -br link  # the MACs that the node has itself",
			"# the switch's MAC table, or the hypervisor's list of network cards, has the port of {mac}",
		},
		Radius: "reading changes nothing; without the other machine the neighbours ask again within a minute",
	},
	RuledOut: []string{link.NodeUplink.ID},
	Explains: append([]string{"neighbour-wrong", "kubelet-port-blocked"}, evidence.LostPaths...),
	Match: func(f diagnose.Findings) []diagnose.Case {
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
					continue // one machine with two NICs is well
				}
				c.For = append(diagnose.Suggests([]diagnose.Finding{r}), diagnose.Suggests(lost)...)
				c.Args["other"] = diagnose.NodeArg(other)
				c.Covers = evidence.PathFollows(f, 4, other)
				c.Says = fmt.Sprintf("%d machines on the link answer for %s, the address of %s: MACs %s", len(macs), address, other, strings.Join(macs, ", "))
			}
			out = append(out, c)
		}
		return out
	},
}
