// Package firewall declares the checks of the firewall and the facts they report: walls, NAT, conntrack, and where the
// kernel drops packets. A wall is one of Linux's firewalls: legacy iptables, iptables-nft or nftables. Both binaries
// link the package. Checks is the entry point. The package reads no rules itself: package ask beside it does so on the
// node, package api reads policies, and package cause draws the conclusions. Package suite draws the whole flow.
package firewall

import (
	"time"

	"github.com/calico-probe/calico-probe/probe"
)

// Checks returns the checks of this subject in display order.
func Checks() []*probe.Check {
	return []*probe.Check{NodeFirewall, NodeConntrack, PacketDrops}
}

// FactFlushers lists the processes that flush or reload a whole firewall, each with its PID and command line.
const FactFlushers probe.Fact = "flushers"

// NodeConntrack checks the connection tracking table. If the table is full, no new connection passes the node, and the
// kernel logs "nf_conntrack: table full, dropping packet".
var NodeConntrack = &probe.Check{
	ID: "node-conntrack", From: probe.FromNode,
	Tags: []string{probe.TagHost, probe.TagNetwork}, Access: []string{"proc", "host network"},
}

// FactLoose is false if the kernel adds no entry for a connection that it first sees in mid-stream.
const FactLoose probe.Fact = "loose"

// TargetIdle is the target of node-conntrack's result about the timeout of idle connections.
const TargetIdle = "idle connections"

// NodeFirewall finds which of Linux's firewalls holds Calico's rules. Rules in two firewalls remain from a change of
// backend, and the kernel applies both (projectcalico/calico#2322).
var NodeFirewall = &probe.Check{
	ID: "node-firewall", From: probe.FromNode, In: probe.Standard,
	Tags:   []string{probe.TagNetwork, probe.TagFelix},
	Access: []string{"host network", "netlink", "NET_ADMIN", "proc", "host processes", "SYS_PTRACE"},
}

// Facts of node-firewall.
const (
	FactInUse probe.Fact = "in_use" // list of the walls that send forwarded packets to Calico's rules

	FactDrops probe.Fact = "drops" // list of chains that drop forwarded packets by their default policy
	// list of foreign chains with a rule that drops or rejects forwarded packets
	FactRefuses probe.Fact = "refuses"

	// list of nftables tables that do not belong to Kubernetes, Calico or iptables, as "inet NAME"
	FactForeignTables probe.Fact = "foreign_tables"
)

// Facts about a foreign rule that certainly drops or rejects what other nodes send to this node.
const (
	FactInputRule probe.Fact = "input_rule" // the rule, with its table and chain
	FactSenders   probe.Fact = "senders"    // list of the nodes whose packets it drops
)

// Facts about a foreign rule that drops packets of single addresses in Calico's IP pools.
const (
	FactBanned  probe.Fact = "banned"   // the first of these addresses
	FactBanRule probe.Fact = "ban_rule" // the rule, with its table and chain
)

// Facts about a NAT rule that changes the source address of pods.
const (
	FactNATRule  probe.Fact = "nat_rule"  // the rule, with its chain
	FactByLabels probe.Fact = "by_labels" // a policy that allows pods by their labels
)

// PacketDrops finds the rule that dropped a packet. Without it, people compare counters by hand
// (projectcalico/calico#1923).
var PacketDrops = &probe.Check{
	ID: "packet-drops", From: probe.FromNode, In: probe.Deep,
	Tags: []string{probe.TagNetwork}, Limit: 20 * time.Second, Needs: []string{probe.CheckNodeUplink},
	Access: []string{"host network", "netlink", "proc", "NET_ADMIN", "NET_RAW", "SYS_ADMIN", "SYS_PTRACE"},
}

// Facts of packet-drops.
const (
	FactPlace     probe.Fact = "place"      // where packets are dropped, in words
	FactPlaceKind probe.Fact = "place_kind" // one of the Place words

	FactRuleChain probe.Fact = "rule_chain" // of the rule that drops them
	FactRuleTable probe.Fact = "rule_table"
	FactRuleHook  probe.Fact = "rule_hook" // which packets its chain sees, "" = those that other chains lead to it
)

// The values of FactPlaceKind. They repeat the values of probe/drops, which the client does not link.
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
