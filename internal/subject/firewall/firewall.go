// Package firewall names the checks of the firewall: walls, NAT, conntrack, and where packets die, and the facts they
// report. Both binaries link it.
package firewall

import (
	"time"

	"github.com/calico-probe/calico-probe/probe"
)

// Checks are the checks of this subject, in the order in which they are shown.
func Checks() []*probe.Check {
	return []*probe.Check{NodeFirewall, NodeConntrack, PacketDrops}
}

// FactFlushers are processes that flush or reload a whole firewall, each with its number and command line.
const FactFlushers probe.Fact = "flushers"

// NodeConntrack asks for the table without which no new connection passes the
// node: "nf_conntrack: table full, dropping packet".
var NodeConntrack = &probe.Check{
	ID: "node-conntrack", From: probe.FromNode,
	Tags: []string{probe.TagHost, probe.TagNetwork}, Access: []string{"proc", "host network"},
}

// Facts of node-conntrack.
const FactLoose probe.Fact = "loose" // false where a connection without an entry gets no new one

// TargetIdle is the target of node-conntrack's result about how long an idle connection keeps its entry.
const TargetIdle = "idle connections"

// NodeFirewall asks which of Linux's firewalls holds Calico's rules: two at once
// are the remains of a change, and both are obeyed (projectcalico/calico#2322).
var NodeFirewall = &probe.Check{
	ID: "node-firewall", From: probe.FromNode, In: probe.Standard,
	Tags:   []string{probe.TagNetwork, probe.TagFelix},
	Access: []string{"host network", "netlink", "NET_ADMIN", "proc", "host processes", "SYS_PTRACE"},
}

// Facts of node-firewall.
const (
	FactInUse probe.Fact = "in_use" // list of these that send forwarded packets to them

	FactDrops probe.Fact = "drops" // list of chains that drop forwarded packets by policy
	// list of chains of others with a rule that drops or rejects forwarded packets
	FactRefuses probe.Fact = "refuses"

	// list of the tables of nftables that no part of Kubernetes, Calico or iptables makes, as "inet NAME"
	FactForeignTables probe.Fact = "foreign_tables"
)

// Facts about such a rule.
const (
	FactNATRule  probe.Fact = "nat_rule"  // with its chain
	FactByLabels probe.Fact = "by_labels" // a policy that admits pods by their labels
)

// PacketDrops asks what people diff counters for by hand: which rule dropped it (projectcalico/calico#1923).
var PacketDrops = &probe.Check{
	ID: "packet-drops", From: probe.FromNode, In: probe.Deep,
	Tags: []string{probe.TagNetwork}, Limit: 20 * time.Second, Needs: []string{probe.CheckNodeUplink},
	Access: []string{"host network", "netlink", "proc", "NET_ADMIN", "NET_RAW", "SYS_ADMIN", "SYS_PTRACE"},
}

// Facts of packet-drops.
const (
	FactPlace     probe.Fact = "place"      // where they die, in words
	FactPlaceKind probe.Fact = "place_kind" // one of the Place words

	FactRuleChain probe.Fact = "rule_chain" // of the rule that drops them
	FactRuleTable probe.Fact = "rule_table"
	FactRuleHook  probe.Fact = "rule_hook" // which packets its chain sees, "" = those that other chains lead to it
)

// The words of FactPlaceKind, as probe/drops has them, which the client does not link.
const (
	PlacePolicy      = "policy"
	PlaceCalico      = "calico"
	PlaceRule        = "rule"
	PlaceChainPolicy = "chain-policy"
	PlaceConntrack   = "conntrack"
	PlaceRPFilter    = "rp-filter"
	PlaceNeighbour   = "neighbour"
	PlaceLink        = "link"
	PlaceInterface   = "interface"
	PlaceFirewall    = "firewall"
	PlaceRoute       = "route"
	PlaceMAC         = "mac"
	PlaceOther       = "other"
)
