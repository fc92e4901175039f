package diagnose

import (
	"fmt"

	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/probe/checks"
)

// fragmentsDropped is a path on which whole packets pass and fragments do not.
var fragmentsDropped = &Rule{
	ID: "fragments-dropped", Layer: LayerPaths, Symptom: true, Title: "fragments of IP packets are dropped on the way to other nodes' pods",
	Doc: `A packet that is larger than the MTU and may be fragmented travels in parts. A firewall that drops every fragment ("ip frag-off & 0x1fff != 0 drop", a scrubbing rule before the kernel puts packets together), a cloud that passes no fragments, or a full reassembly queue loses it, while whole packets of the full MTU pass. TCP is not affected. Programs over UDP are: large DNS answers, QUIC tunnels, syslog, SIP, and tunnels inside pods.
Told from a small path MTU by whole packets of the full MTU, which pass.`,
	Fix: probe.Fix{
		Says: "Look on both nodes for a rule that drops fragments, and for a full reassembly queue. With neither, it is the network between the nodes.",
		Manifest: []string{
			"ssh {node} 'sudo nft list ruleset | grep -n -i -e frag; sudo iptables-save | grep -e \" -f \"; nstat -az IpReasmFails IpReasmTimeout'",
			"ssh {other} 'sudo nft list ruleset | grep -n -i -e frag; sudo iptables-save | grep -e \" -f \"; nstat -az IpReasmFails IpReasmTimeout'"},
		Radius: onlyReads,
	},
	RuledOut: []string{checks.PodPing.ID, checks.PodTCP.ID},
	Match: func(f Findings) []Case {
		byPeer := map[string]int{}
		var out []Case
		for _, r := range f.With(checks.PodMTU.ID, probe.FactReason, checks.ReasonFragments) {
			peer := nodeOf(r)
			i, known := byPeer[peer]
			if !known {
				i = len(out)
				byPeer[peer] = i
				out = append(out, Case{About: peer, Peer: peer, Args: map[string]Arg{"other": nodeArg(peer)},
					Says: fmt.Sprintf("fragmented packets between {node} and pods on %s are lost, and whole packets pass: a firewall of "+
						"either node, or the network between them, drops fragments", peer)})
			}
			out[i].For = append(out[i].For, clues(strong, []Finding{r})...)
			out[i].Covers = append(out[i].Covers, Cover{Check: r.Check, About: r.Target})
		}
		return out
	},
}
