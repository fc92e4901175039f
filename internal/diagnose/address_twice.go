package diagnose

import (
	"fmt"
	"strings"

	"github.com/calico-probe/calico-probe/internal/subject/bgp"
	"github.com/calico-probe/calico-probe/internal/subject/link"
	"github.com/calico-probe/calico-probe/probe"
)

// addressTwice is an address for which two machines answer on the link.
var addressTwice = &Rule{
	ID: "address-twice", Layer: LayerKernel, Title: "two machines on the link use the same IPv4 address",
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
	Explains: append([]string{"neighbour-wrong", "kubelet-port-blocked"}, lostPaths...),
	Match: func(f Findings) []Case {
		var out []Case
		for _, r := range f.Of(link.NodeNeighbours.ID) {
			macs := listOf(r, link.FactTwins)
			if len(macs) == 0 {
				continue
			}
			macs = macs[:min(len(macs), mostNamed)]
			other, address := nodeOf(r), ""
			for _, word := range strings.Fields(r.Target) {
				if strings.Count(word, ".") == 3 {
					address = word
				}
			}
			c := Case{About: address, Peer: other, Family: familyOf(r), For: Proves([]Finding{r}),
				Args: map[string]Arg{"address": addressArg(address), "device": deviceArg(r.Facts.Str(probe.FactInterface)),
					"mac": checked(macs[0], isWord(strings.ReplaceAll(macs[0], ":", "")), "MAC"), "other": nodeArg(f.Node)},
				Says: fmt.Sprintf("another machine on the link (MAC %s) answers for %s, the address of {node}", strings.Join(macs, ", "), address),
			}
			if other != "" {
				lost := keep(badPaths(f, 4, allPaths), func(p Finding) bool { return nodeOf(p) == other })
				lost = append(lost, keep(f.Bad(bgp.BGPSession.ID), func(p Finding) bool { return nodeOf(p) == other })...)
				if len(lost) == 0 {
					continue // one machine with two NICs is well
				}
				c.For = append(Suggests([]Finding{r}), Suggests(lost)...)
				c.Args["other"] = nodeArg(other)
				c.Covers = pathFollows(f, 4, other)
				c.Says = fmt.Sprintf("%d machines on the link answer for %s, the address of %s: MACs %s", len(macs), address, other, strings.Join(macs, ", "))
			}
			out = append(out, c)
		}
		return out
	},
}
