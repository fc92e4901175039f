package cause

import (
	"fmt"
	"slices"

	"github.com/calico-probe/calico-probe/internal/diagnose"
	"github.com/calico-probe/calico-probe/internal/subject/evidence"
	"github.com/calico-probe/calico-probe/internal/subject/pod"
	"github.com/calico-probe/calico-probe/probe"
)

// fragmentsDropped is a path on which whole packets pass and fragments do not.
var fragmentsDropped = &diagnose.Rule{
	ID: "fragments-dropped", Layer: diagnose.LayerPaths, Symptom: true, Title: "IP fragments to other nodes' pods are dropped",
	Doc: `A packet that is larger than the MTU and may be fragmented travels in parts. A firewall that drops every fragment ("ip frag-off & 0x1fff != 0 drop", a scrubbing rule before the kernel puts packets together), or a full reassembly queue loses it, while whole packets of the full MTU pass. Some clouds pass no fragments at all: then this is how that network works. A rule in the receiving pod's own network namespace can drop them too. TCP is not affected. Programs over UDP are: large DNS answers, QUIC tunnels, syslog, SIP, and tunnels inside pods.
Told from a small path MTU by whole packets of the full MTU, which pass; from a rule in the sending pod by the pings of the node itself.`,
	Fix: probe.Fix{
		Says: "Look on both nodes for a rule that drops fragments, and for a full reassembly queue. With neither, it is the network between the nodes, or the receiving pod's own network namespace.",
		Manifest: []string{
			"ssh {node} 'sudo nft list ruleset | grep -n -i -e frag; sudo iptables-save | grep -e \" -f \"; nstat -az IpReasmFails IpReasmTimeout'",
			"ssh {other} 'sudo nft list ruleset | grep -n -i -e frag; sudo iptables-save | grep -e \" -f \"; nstat -az IpReasmFails IpReasmTimeout'"},
		Radius: evidence.OnlyReads,
	},
	RuledOut: []string{pod.PodPing.ID, pod.PodTCP.ID},
	Match: func(f diagnose.Findings) []diagnose.Case {
		byPeer := map[string]int{}
		var out []diagnose.Case
		for _, r := range f.With(pod.PodMTU.ID, probe.FactReason, probe.ReasonFragments) {
			peer := diagnose.NodeOf(r)
			i, known := byPeer[peer]
			if !known {
				i = len(out)
				byPeer[peer] = i
				out = append(out, diagnose.Case{About: peer, Peer: peer,
					Args: map[string]diagnose.Arg{"other": diagnose.NodeArg(peer)},
					Says: fmt.Sprintf("large pings in fragments between {node} and pods on %s are lost, and whole packets pass: a "+
						"firewall of either node, the network between them or the receiving pod's own namespace drops fragments", peer)})
			}
			out[i].For = append(out[i].For, diagnose.Suggests([]diagnose.Finding{r})...)
		}
		return slices.DeleteFunc(out, func(c diagnose.Case) bool { return !fromNodeAndPod(c.For) })
	},
}

// fromNodeAndPod reports whether the node itself and one of its pods saw the same.
func fromNodeAndPod(seen []diagnose.Clue) bool {
	pods := 0
	for _, c := range seen {
		if c.From != "" {
			pods++
		}
	}
	return pods > 0 && pods < len(seen)
}
