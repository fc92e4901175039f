package cause

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"github.com/calico-probe/calico-probe/internal/diagnose"
	"github.com/calico-probe/calico-probe/internal/subject/bgp"
	"github.com/calico-probe/calico-probe/internal/subject/evidence"
	"github.com/calico-probe/calico-probe/internal/subject/link"
	"github.com/calico-probe/calico-probe/internal/subject/nodestate"
	"github.com/calico-probe/calico-probe/internal/subject/nodestate/diff"
	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/probe/facts"
)

// nodeTurnsAway is projectcalico/calico#3309: a firewall of the node's own that lets in what it was told of alone.
var nodeTurnsAway = &diagnose.Rule{
	ID: "node-turns-away", Layer: diagnose.LayerKernel, Title: "a firewall on the node rejects traffic from other nodes",
	Doc: `firewalld, ufw and hardening scripts let in what is listed and reject the rest: BGP (TCP 179), the kubelet (TCP 10250), Typha, VXLAN. Another node that connects gets ICMP "administratively prohibited", and gets it from this node's own address. Sessions that stood go on until they end once; then Calico's BIRD waits for the peer, holds its routes back, and the API server reaches no kubelet, while everything that this node begins itself works.
Told from a firewall between the nodes by who sends the ICMP and by the node's own rules; from Calico's policies by the table, which is none of Calico's; from a dead kubelet by the answer, which is no refusal.`,
	Fix: probe.Fix{
		Says: "Let the nodes and the API servers in, in what made the rules: TCP 179 for BGP, TCP 10250 for the kubelet, TCP 5473 for Typha, UDP 4789 for VXLAN. Or stop it, and leave the node's firewall to Calico's HostEndpoints.",
		Manifest: []string{"ssh {node} systemctl is-active firewalld ufw nftables",
			"ssh {node} \"sudo nft list ruleset; sudo iptables-save\" | grep -n -w -e 'hook input' -e INPUT -e reject -e REJECT"},
		OnlyIf: []probe.Conditional{
			{If: "it is firewalld", Manifest: []string{
				"ssh {node} sudo firewall-cmd --permanent --add-port=179/tcp --add-port=10250/tcp --add-port=5473/tcp --add-port=4789/udp",
				"ssh {node} sudo firewall-cmd --reload"}},
			{If: "it is ufw, and SUBNET is the nodes' own", Manifest: []string{"ssh {node} sudo ufw allow from SUBNET"}},
		},
		Radius: "reading changes nothing; the ports are open to whom the rule names. A reload of firewalld may remove rules of Calico's and kube-proxy's, which write them again within a minute or so",
	},
	RuledOut: []string{link.NodePing.ID, facts.CheckNodeLease},
	Explains: []string{"kubelet-port-blocked", "bgp-waits", "bgp-restart-hold", "bgp-one-way", "node-differs"},
	Match: func(f diagnose.Findings) []diagnose.Case {
		byICMP := func(r diagnose.Finding) bool { // of the node's own ports, and by nobody else's word
			by := r.Facts.Str(probe.FactICMPFrom)
			return diagnose.ReasonOf(r) == "rejected" && !strings.Contains(r.Target, " pod ") &&
				(by == "" || slices.Contains(strings.Fields(r.Target), by))
		}
		rejected, kubelets := diagnose.Keep(evidence.FromOutside(f, evidence.AnyPort).Refused, byICMP),
			diagnose.Keep(evidence.FromOutside(f, evidence.KubeletPort).Refused, byICMP)
		if len(rejected) == 0 || len(kubelets) == 0 && len(f.Failed(bgp.BGPPort.ID)) > 0 { // BGP alone, at both ends
			return nil
		}
		itself := diagnose.Keep(rejected, func(r diagnose.Finding) bool { return r.Facts.Str(probe.FactICMPFrom) != "" })
		wall, listed := inputWall(f)
		if len(itself) == 0 && !listed {
			return nil
		}
		c := diagnose.Case{For: append(diagnose.Suggests(rejected[:1]), diagnose.Shows(rejected[1:])...),
			Covers: append(evidence.PathFollows(f, 0, ""), diagnose.Covers(probe.CheckAnswered, facts.CheckCalicoPod,
				bgp.BGPExpected.ID)...),
			Says: fmt.Sprintf("a firewall on {node} itself rejects what other nodes send to %s", portsOf(rejected))}
		if listed {
			c.For = append(c.For, diagnose.Suggests([]diagnose.Finding{wall.Finding})...)
			c.Says += fmt.Sprintf(": chain %s of its rules (%s)", wall.rule, wall.is)
		}
		return []diagnose.Case{c}
	},
}

// wall is a chain of a node's own firewall, and what becomes of packets in it.
type wall struct {
	diagnose.Finding
	rule, is string
}

// turnsAway is how node-state lists a chain that is asked for what comes in, and rejects some of it.
var turnsAway = regexp.MustCompile(`^hook input, .*\breject\b`)

// inputWall finds such a chain on this node that is neither Calico's nor kube-proxy's.
func inputWall(f diagnose.Findings) (wall, bool) {
	walls := diff.StateOf(f)[nodestate.AreaFirewall]
	if walls == nil {
		return wall{}, false
	}
	for _, name := range slices.Sorted(maps.Keys(walls.Values)) {
		if is := walls.Values[name]; turnsAway.MatchString(is) {
			return wall{walls.Of[name], name, is}, true
		}
	}
	return wall{}, false
}

// portsOf names the TCP ports that results are about, each once.
func portsOf(all []diagnose.Finding) string {
	var out []string
	for _, r := range all {
		port, _ := r.Facts.Num(probe.FactPort)
		if text := fmt.Sprintf("TCP %.0f", port); !slices.Contains(out, text) {
			out = append(out, text)
		}
	}
	slices.Sort(out)
	return strings.Join(out, ", ")
}
