// Package drops finds the place where packets are lost. It reads the kernel's counters while our
// own packets are being lost.
//
// Search sends bursts of known, odd sizes to a target that does not answer. Between the bursts, it sends the same
// number of packets to a target that answers, if there is one. Packets are lost at a counter if the counter grew by
// their number in each burst, but not between bursts (match has the arithmetic). A rule's counter is more specific
// than the counter of a whole protocol. If several counters grew, Search returns the most specific one as the place,
// and lists the others with it.
//
//	deaths, err := drops.Search(ctx, drops.Question{From: here, To: addr, Fine: other, Count: places})
//
// Search may find a loss even if no counter shows it. The kernel reports how it would handle such a packet (no
// route, an unexpected source). It also reports the state of neighbours and links.
package drops

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/calico-probe/calico-probe/probe/kernel"
)

// Death is a place where our packets were dropped.
type Death struct {
	Where  string // the network namespace: Node, or a pod's name
	Kind   string // one of the Kind words
	Place  string // a description for readers
	Reason string // in the words of the source: a counter or an error
	Count  int    // number of packets, 0 = not counted
	By     string // one of the By words
	// Policy is the Calico policy or profile that dropped the packets, or "".
	Policy string
	// Rule is the firewall rule that dropped the packets, or nil.
	Rule *kernel.Refusal
}

// Node is the name of the node's own network namespace.
const Node = "the node"

// The sources that can report a Death.
const (
	byCounter = "counter" // a counter grew by the number of lost packets
	byKernel  = "kernel"  // the kernel's own answer: an error, a route, a neighbour or a link
	byTrace   = "trace"   // the kernel reported each packet when it freed the packet
)

// The kinds of places.
const (
	KindPolicy      = "policy"       // a Calico policy or profile, or the end of a tier if no policy accepted them
	KindCalico      = "calico"       // another Calico rule
	KindRule        = "rule"         // a rule that belongs to another owner
	KindChainPolicy = "chain-policy" // the default policy of a chain
	KindConntrack   = "conntrack"
	KindRPFilter    = "rp-filter"
	KindRoute       = "route" // no route, or one that drops packets
	kindForwarding  = "forwarding"
	kindMTU         = "mtu"
	kindTTL         = "ttl"
	kindChecksum    = "checksum"
	KindNeighbour   = "neighbour"
	kindListen      = "listen" // the queue of a listening socket
	kindSocket      = "socket"
	kindPassword    = "tcp-md5" // TCP-MD5 or TCP-AO, which BGP passwords use
	kindIPsec       = "ipsec"
	kindQueue       = "queue" // a queueing discipline, or a filter (tc)
	KindInterface   = "interface"
	KindLink        = "link" // the link is down
	KindMAC         = "mac"
	KindFirewall    = "firewall" // the kernel reports a firewall, but no counter identifies the rule
	KindOther       = "other"    // only a protocol's counter grew
)

// Line formats a death as one line.
func (d Death) Line() string {
	text := d.Place
	if d.Where != Node {
		text = "in " + d.Where + ": " + text
	}
	switch {
	case d.By == byKernel && d.Count == 0:
		return fmt.Sprintf("%s (reported by the kernel)", text)
	case d.By == byKernel:
		return fmt.Sprintf("%s (reported by the kernel for %d packets)", text, d.Count)
	case d.By == byTrace:
		return fmt.Sprintf("%s (%s, traced %d times)", text, d.Reason, d.Count)
	}
	return fmt.Sprintf("%s (%s grew by %d)", text, d.Reason, d.Count)
}

// bySpecificity ranks the kinds by how specific they are, with the most specific first.
var bySpecificity = []string{KindPolicy, KindCalico, KindRule, KindChainPolicy, kindListen, kindQueue, kindPassword,
	kindIPsec, KindConntrack, KindRPFilter, KindLink, kindForwarding, KindRoute, KindNeighbour, kindMTU, kindChecksum,
	kindTTL, KindMAC, kindSocket, KindFirewall, KindInterface, KindOther}

// rank sorts deaths of the same packets. The most specific kind comes first, and within a kind the
// kernel's own answer comes first.
func rank(all []Death) []Death {
	by := []string{byTrace, byKernel, byCounter}
	slices.SortStableFunc(all, func(a, b Death) int {
		return cmp.Or(cmp.Compare(slices.Index(bySpecificity, a.Kind), slices.Index(bySpecificity, b.Kind)),
			cmp.Compare(slices.Index(by, a.By), slices.Index(by, b.By)))
	})
	return all
}
