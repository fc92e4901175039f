package diagnose

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/calico-probe/calico-probe/internal/subject/bgp"
	"github.com/calico-probe/calico-probe/internal/subject/dns"
	"github.com/calico-probe/calico-probe/internal/subject/link"
	"github.com/calico-probe/calico-probe/internal/subject/nodestate"
	"github.com/calico-probe/calico-probe/internal/subject/pod"
	"github.com/calico-probe/calico-probe/internal/subject/route"
	"github.com/calico-probe/calico-probe/internal/subject/service"
	"github.com/calico-probe/calico-probe/probe"
)

// refusing is a rule of a firewall, as node-state has it, that drops or rejects: family, table, chain, the rule.
var refusing = regexp.MustCompile(`^(?:legacy )?(\S+) (\S+) (\S+): (.*\b(?:drop|reject))$`)

// peerWalled is a firewall rule of another program on the other node.
var peerWalled = &Rule{
	ID: "peer-firewall", Layer: LayerPeers, Compares: true, Residual: true,
	Title: "a firewall rule on the other node may drop this node's traffic",
	Doc: `What this node sends to one other node, or to its pods, is lost, and that node has a rule of nftables or iptables which drops or rejects, belongs to neither Calico nor kube-proxy, and is not on this node: of a hardening script, firewalld, an agent against floods, in any table, also netdev and raw ones that packets meet before Calico's rules. This node's own state is in order.
It is a comparison and no proof: whether the rule sees those packets is not worked out. A rule with an address of a sender counts less, and so do several tables.
Told from a fault of the other node's routes or pods by a run there, which has the rule's own counter.`,
	Fix: probe.Fix{
		Says: "Check on {other} whether the rule's counter grows while {node} connects. If it does, find what made the rule and let the cluster's nodes and pods through there.",
		Manifest: []string{"calico-probe run --node {other}",
			"ssh {other} 'sudo nft -a list ruleset; sudo iptables-legacy-save -c' | grep -n -w -e {table}"},
		Radius: "a probe on the other node; the others only read",
	},
	RuledOut: []string{route.RouteBlocks.ID, link.NodeUplink.ID},
	Match: func(f Findings) []Case {
		found := differences(f)
		var out []Case
		for _, node := range f.Others() {
			lost := lostTowards(f, node)
			rules := slices.DeleteFunc(slices.Clone(found), func(d difference) bool {
				return d.other != node || d.area != nodestate.AreaFirewall || d.in || !d.inOther || !refusing.MatchString(d.name)
			})
			if len(lost) == 0 || len(rules) == 0 {
				continue
			}
			out = append(out, walledThere(f, node, rules, lost))
		}
		return out
	},
}

// lostTowards are the bad results of what this node sends to another node and its pods, by checks that answer for
// packets alone.
func lostTowards(f Findings, node string) []Finding {
	var out []Finding
	for _, check := range []string{pod.PodTCP.ID, pod.PodPing.ID, pod.PodMTU.ID, link.NodePing.ID,
		bgp.BGPPort.ID, service.ServiceNodePort.ID, dns.DNSCluster.ID} {
		out = append(out, keep(f.Bad(check), func(r Finding) bool {
			return nodeOf(r) == node && (check != dns.DNSCluster.ID || reasonOf(r) == "timeout")
		})...)
	}
	return out
}

// walledThere is the case of the rules of one other node.
func walledThere(f Findings, node string, rules []difference, lost []Finding) Case {
	m := refusing.FindStringSubmatch(rules[0].name)
	weight := strong
	for _, d := range rules {
		of := refusing.FindStringSubmatch(d.name)
		if of[1] != m[1] || of[2] != m[2] || strings.Contains(of[4], "saddr") {
			weight = hint
		}
	}
	var texts []string
	var shows []Finding
	for _, d := range rules[:min(len(rules), mostNamed)] {
		texts = append(texts, d.name)
		shows = append(shows, stateSays(d.with, d.text(f.Node)))
	}
	what := "packets"
	if !slices.ContainsFunc(lost, func(r Finding) bool { return r.Check != pod.PodMTU.ID }) {
		what = "large packets" // small ones arrive
	}
	c := Case{About: node, Peer: node,
		Says: fmt.Sprintf("%s from {node} to %s or its pods are lost, and %s has a firewall rule that {node} does not have: %s",
			what, node, node, strings.Join(texts, "; ")),
		For:  append(clues(weight, lost), Shows(shows)...),
		Args: map[string]Arg{"other": nodeArg(node), "table": checked(m[2], isWord(m[2]), "TABLE")}}
	for _, r := range lost {
		c.Covers = append(c.Covers, Cover{Check: r.Check, About: r.Target})
	}
	c.Covers = append(c.Covers, pathFollows(f, 0, node)...)
	return c
}
