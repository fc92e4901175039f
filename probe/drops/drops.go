// Package drops finds where packets are lost, from the kernel's counters while our own packets are lost.
//
// Search sends bursts of known, odd sizes to a target that does not answer. Between the bursts it sends as many
// packets to a target that answers, or none. Packets are lost at the counter that grew by their number in each burst,
// and not in between (match has the arithmetic). Counters of a rule are more specific than those of a whole protocol.
// If several grew, the most specific is the place, and the others are listed with it.
//
//	deaths, err := drops.Search(ctx, drops.Question{From: here, To: addr, Fine: other, Count: places})
//
// A loss without a counter may still be found. The kernel reports how it would handle such a packet (no route, an
// unexpected source), and the state of neighbours and links.
package drops

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/calico-probe/calico-probe/probe/kernel"
)

// Death is a place where packets of ours ended.
type Death struct {
	Where  string // the network namespace: Node, or a pod's name
	Kind   string // one of the Kind words
	Place  string // in words
	Reason string // what the one who says so calls it: a counter, an error
	Count  int    // packets, 0 = not counted
	By     string // one of the By words
	// Policy is the policy or profile of Calico's that did it, "" where it was none.
	Policy string
	// Rule is the rule that did it, nil where it was none.
	Rule *kernel.Refusal
}

// Node is the name of the node's own network namespace.
const Node = "the node"

// Who says so.
const (
	byCounter = "counter" // a counter grew by as many as were lost
	byKernel  = "kernel"  // the kernel's own answer: an error, a route, a neighbour, a link
	byTrace   = "trace"   // the kernel told of each packet as it freed it
)

// The kinds of place.
const (
	KindPolicy      = "policy"       // a rule of a policy or profile of Calico's, or where none of them accepted
	KindCalico      = "calico"       // another rule of Calico's
	KindRule        = "rule"         // a rule of somebody else's
	KindChainPolicy = "chain-policy" // the policy of a chain
	KindConntrack   = "conntrack"
	KindRPFilter    = "rp-filter"
	KindRoute       = "route" // none, or one that drops
	kindForwarding  = "forwarding"
	kindMTU         = "mtu"
	kindTTL         = "ttl"
	kindChecksum    = "checksum"
	KindNeighbour   = "neighbour"
	kindListen      = "listen" // the queue of a listening socket
	kindSocket      = "socket"
	kindPassword    = "tcp-md5" // TCP-MD5 or TCP-AO, which BGP's passwords are
	kindIPsec       = "ipsec"
	kindQueue       = "queue" // a queueing discipline, or a filter (tc)
	KindInterface   = "interface"
	KindLink        = "link" // it is down
	KindMAC         = "mac"
	KindFirewall    = "firewall" // the kernel says a firewall did it, and no counter says which rule
	KindOther       = "other"    // the protocol's counters tell no more
)

// Line is a death in one line.
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

// telling is how much a kind says of what is to be done, the most first.
var telling = []string{KindPolicy, KindCalico, KindRule, KindChainPolicy, kindListen, kindQueue, kindPassword,
	kindIPsec, KindConntrack, KindRPFilter, KindLink, kindForwarding, KindRoute, KindNeighbour, kindMTU, kindChecksum,
	kindTTL, KindMAC, kindSocket, KindFirewall, KindInterface, KindOther}

// rank sorts deaths of the same packets: what tells the most comes first; of the same kind what the kernel names
// itself, such as a route.
func rank(all []Death) []Death {
	by := []string{byTrace, byKernel, byCounter}
	slices.SortStableFunc(all, func(a, b Death) int {
		return cmp.Or(cmp.Compare(slices.Index(telling, a.Kind), slices.Index(telling, b.Kind)),
			cmp.Compare(slices.Index(by, a.By), slices.Index(by, b.By)))
	})
	return all
}
