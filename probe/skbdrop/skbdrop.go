// Package skbdrop finds where the kernel drops packets, in every network namespace of the machine. It loads three
// small programs (bpf/skbdrop.c) onto tracepoints of the kernel. They compare each packet with a Filter and record
// matching ones: those that left or entered an interface, or were dropped, and by which function.
//
//	t, err := skbdrop.Open(skbdrop.Filter{Addrs: []netip.Addr{source, target}, Protocol: skbdrop.ICMP, Numbers: []uint16{id}})
//	... send packets ...
//	events, gaps, err := t.End()
//
// Nothing is pinned: the programs belong to this process, and the kernel removes them when the process exits for any
// reason.
package skbdrop

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"time"
)

// The protocols of a Filter.
const (
	ICMP = 1 // of both families
	TCP  = 6
)

// Filter selects the packets to trace: of one protocol, with one of some addresses as source or destination, and one of
// some numbers. So it matches both directions, and packets that the node translates, because a translation changes one
// of two addresses.
type Filter struct {
	Addrs    []netip.Addr // at most four
	Protocol uint8
	Numbers  []uint16 // the identifier of an echo, or one of the ports; at most eight
	VXLAN    uint16   // the UDP port of encapsulated packets; 0 = do not look into any
}

const (
	maxAddrs   = 4
	maxNumbers = 8
)

// Kind is what happened to a packet in one place.
type Kind uint32

// The values of Kind.
const (
	Left    Kind = iota // it was passed to an interface's driver
	Came                // it arrived on an interface
	Dropped             // it, or a copy of it, was dropped
)

// Event is one packet in one place.
type Event struct {
	At        time.Duration // since Open
	Kind      Kind
	Namespace uint32 // the inode of its network namespace, 0 = unknown
	Interface string // "" = it has none (any more)
	Index     uint32

	Src, Dst netip.AddrPort // of the Filter's packet, without encapsulation or quote; ports are those of TCP
	Protocol uint8          // as on the wire: 58 is ICMPv6
	Type     uint8          // of ICMP; for TCP the flags
	Seq      uint32
	TTL      uint8
	Wrapped  bool // it is inside a tunnel packet
	Quoted   bool // the packet is an ICMP error about the Filter's packet

	Reason string   // of a drop, in the words of the kernel's BTF, without SKB_DROP_REASON_: "NETFILTER_DROP"
	Calls  []string // of a drop: the function that dropped it, its caller, and so on
}

// Gaps are events that are missing in a trace.
type Gaps struct {
	More int // events beyond the maximum
	// Skipped is how many times the kernel did not run a program of the trace, because it had interrupted the same program
	// on that CPU. The packet may have been ours or not.
	Skipped int
}

// callers maps a calling function to netfilter's hook.
var callers = map[string]string{
	"ip_rcv": "PREROUTING", "ip_list_rcv": "PREROUTING", "ip_sublist_rcv": "PREROUTING",
	"ipv6_rcv": "PREROUTING", "ipv6_list_rcv": "PREROUTING", "ip6_sublist_rcv": "PREROUTING",
	"ip_local_deliver": "INPUT", "ip6_input": "INPUT",
	"ip_forward": "FORWARD", "ip6_forward": "FORWARD",
	"__ip_local_out": "OUTPUT", "__ip6_local_out": "OUTPUT", "ip6_xmit": "OUTPUT",
	"raw_sendmsg": "OUTPUT", "raw_send_hdrinc": "OUTPUT", "rawv6_sendmsg": "OUTPUT", "rawv6_send_hdrinc": "OUTPUT",
	"ip_output": "POSTROUTING", "ip_mc_output": "POSTROUTING", "ip6_output": "POSTROUTING",
	"__netif_receive_skb_core": "ingress", "__dev_queue_xmit": "egress",
}

// Hook returns the netfilter hook in which a packet was dropped, "" if none or unknown.
func (e Event) Hook() string {
	at := slices.IndexFunc(e.Calls, func(c string) bool { return strings.HasPrefix(c, "nf_hook_slow") })
	if at < 0 {
		return ""
	}
	for _, c := range e.Calls[at+1:] {
		if hook := callers[bare(c)]; hook != "" {
			return hook
		}
	}
	return ""
}

// Function returns the function that dropped a packet, "" if unknown.
func (e Event) Function() string {
	if len(e.Calls) == 0 {
		return ""
	}
	return bare(e.Calls[0])
}

// bare returns a function's name without the compiler's suffix: .constprop.0.
func bare(function string) string {
	name, _, _ := strings.Cut(function, ".")
	return name
}

// Why is what a kernel lacks for a trace.
type Why string

// The reasons of an UnavailableError.
const (
	NoBTF     Why = "no-btf"
	NoReasons Why = "no-drop-reasons"
	NoRight   Why = "no-right"
	Lockdown  Why = "lockdown"
)

// UnavailableError reports why drops cannot be traced here. Its text is for the user.
type UnavailableError struct {
	Why Why
	Err error // may be nil
}

var unavailable = map[Why]string{
	NoBTF: "this kernel has no BTF (CONFIG_DEBUG_INFO_BTF, /sys/kernel/btf/vmlinux), without which the places of its " +
		"fields are unknown",
	NoReasons: "this kernel does not report why it drops a packet: Linux does since 5.17",
	NoRight:   "loading a program into the kernel requires the capabilities BPF and PERFMON",
	Lockdown:  "the kernel is locked down (confidentiality): no program may read its memory",
}

func (e *UnavailableError) Error() string {
	if e.Err == nil {
		return unavailable[e.Why]
	}
	return fmt.Sprintf("%s: %v", unavailable[e.Why], e.Err)
}

func (e *UnavailableError) Unwrap() error { return e.Err }

// valid returns nil if a filter is not empty and fits the kernel's part.
func (f Filter) valid() error {
	switch {
	case len(f.Addrs) == 0 || len(f.Addrs) > maxAddrs:
		return fmt.Errorf("a filter has 1 to %d addresses, not %d", maxAddrs, len(f.Addrs))
	case len(f.Numbers) > maxNumbers:
		return fmt.Errorf("a filter has %d numbers at most, not %d", maxNumbers, len(f.Numbers))
	case f.Protocol != ICMP && f.Protocol != TCP:
		return fmt.Errorf("a filter supports ICMP and TCP, not protocol %d", f.Protocol)
	}
	return nil
}
