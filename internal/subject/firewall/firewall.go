// Package firewall names the checks of the firewall: walls, NAT, conntrack, and where packets die, and the facts they
// report. Both binaries link it.
package firewall

import (
	"time"

	"github.com/calico-probe/calico-probe/probe"
)

// FactFlushers are processes that flush or reload a whole firewall, each with its number and command line.
const FactFlushers probe.Fact = "flushers"

// NodeConntrack asks for the table without which no new connection passes the
// node: "nf_conntrack: table full, dropping packet".
var NodeConntrack = &probe.Check{
	ID: "node-conntrack", Asks: "is the connection tracking table full?", From: probe.FromNode,
	Tags: []string{probe.TagHost, probe.TagNetwork}, Access: []string{"proc", "host network"},
	Doc: `Every connection that kube-proxy and Calico let through has an entry; when the table is full, new connections are dropped while old ones go on, which looks like packet loss.
ok: room enough. warn: three quarters full; or an idle TCP connection loses its entry within a minute (nf_conntrack_tcp_timeout_established), or within five where nf_conntrack_tcp_loose is 0: then it hangs or is reset when it sends again. info: within five minutes, with nf_conntrack_tcp_loose 1, the kernel's default: a connection without NAT gets a new entry, one to a Service may be reset. fail: it is full; or it nearly is, and within half a second the kernel dropped packets or unanswered connections because it was full. The facts have what was dropped since boot.
Entries that could not be inserted while there is room are told and not judged: two packets of one connection that come at once, as the two questions of a resolver (A and AAAA) through a Service, race for one entry, and the packet that loses is gone. The resolver asks again after 5 s: "DNS is slow now and then" (kubernetes/kubernetes#56903). A cache on the node (NodeLocal DNSCache), or single-request-reopen in resolv.conf, avoids it; kernels from 5.0 on lose fewer.
In a quick run two readings are compared only where the table is nearly full.
skip: connection tracking is not loaded on this node.`,
}

// Facts of node-conntrack.
const FactLoose probe.Fact = "loose" // false where a connection without an entry gets no new one

// TargetIdle is the target of node-conntrack's result about how long an idle connection keeps its entry.
const TargetIdle = "idle connections"

// NodeFirewall asks which of Linux's firewalls holds Calico's rules: two at once
// are the remains of a change, and both are obeyed (projectcalico/calico#2322).
var NodeFirewall = &probe.Check{
	ID: "node-firewall", Asks: "are Calico's firewall rules in use, in one place only, and does nothing beside them drop pods' packets?", From: probe.FromNode, In: probe.Standard,
	Tags:   []string{probe.TagNetwork, probe.TagFelix},
	Access: []string{"host network", "netlink", "NET_ADMIN", "proc", "host processes", "SYS_PTRACE"},
	Doc: `Felix writes its chains (cali-*) into one of three firewalls, which the kernel asks one after the other: legacy iptables, iptables on top of nftables (iptables-nft), or nftables itself (the table "calico"). A packet has to get through all of them.
ok: one of them sends forwarded packets to Calico's chains. fail: two do: after a change of the backend, of the system's iptables or of Calico, the old rules stayed and drop what they do not know, such as every pod made since; Calico removes them itself only from v3.31, and only between iptables and its own nftables tables; else a reboot or a clean-up does. fail: Calico's chains are there and no rule leads to them (something flushed FORWARD), or there are none at all although there are pods' interfaces (cali*) and the data plane is not eBPF: policy and masquerading do not work.
warn: FORWARD drops by policy (docker does that) in a firewall where Calico's chains are not, so that its accept does not count there, and its rules do not surely accept what a pod here and one elsewhere send to each other. info: its rules accept that; or a table somebody wrote for nftables himself drops by policy what it does not accept, as firewalld does; it is taken to know the pods (the fact refuses names chains of others whose own rules drop or reject); or chains of Calico's that nothing leads to are left over beside those in use; or there are neither pods nor rules.
masquerading, where pods of other nodes are known: info: a rule of others in POSTROUTING gives what pods send to other nodes' pods the node's address, so a policy that admits pods by their labels does not know them. warn: the same where there is such a policy. ok: none does, as far as the rules of such chains are understood.
Where Calico's chains are not in use, processes are named that flush a firewall or load a whole one.
skip: the eBPF data plane, or the capability NET_ADMIN is missing. Read are the names of chains, the rules of FORWARD, and where that drops by policy those it leads to: of legacy iptables no more than 16 MB. A kernel that has nftables as a module which nothing has used yet loads it for the question, as it does for the command nft.`,
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
	ID: "packet-drops", Asks: "where on this node do packets die that do not come back?", From: probe.FromNode, In: probe.Deep,
	Tags: []string{probe.TagNetwork}, Limit: 20 * time.Second, Needs: []string{probe.CheckNodeUplink},
	Access: []string{"host network", "netlink", "proc", "NET_ADMIN", "NET_RAW", "SYS_ADMIN", "SYS_PTRACE"},
	Doc: `A few pings and a connection to other nodes and pods, and to BGP peers without a session, from the node and out of one of its pods. To at most three of those that do not answer go two or three bursts of a known number of packets, and in the pauses between them as many to one that answers. Meanwhile all counters of the node, of the pod that is asked from and of the pod that is asked about are read: of rules of nftables and both iptables that drop, of the protocols, connection tracking, IPsec, queues (tc), interfaces and sockets that listen. A counter is the place when it grew by as many packets as were lost, each time, and not in the pauses: docs/drops.md says how seldom chance does that. The kernel's own answers count too: a route that drops, a neighbour that does not answer, a link that is down.
ok: what was asked answers. info: a policy or profile of Calico's drops them, as it may be meant to; or they leave the node and nothing here drops them, so they are lost beyond it, as on the other node or by a router between. fail: they die here, at the place that is named. unknown: what counts could not be read.
A run asks this only where pings or connections failed in silence and no cause is proven, or a filter drops BGP; the profile deep always does. No program is loaded, no rule made. What no counter tells, such as a rule without one, stays unnamed.`,
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
