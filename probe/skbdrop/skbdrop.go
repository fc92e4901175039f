// Package skbdrop finds where the kernel drops packets, in all network namespaces of the machine. It attaches three
// small programs (bpf/skbdrop.c) to tracepoints in the kernel. They compare each packet with a Filter and record those
// that match. They record whether the packet left or entered an interface or was dropped, and by which function.
//
//	t, err := skbdrop.Open(skbdrop.Filter{Addrs: []netip.Addr{source, target}, Protocol: skbdrop.ICMP, Numbers: []uint16{id}})
//	... send packets ...
//	events, gaps, err := t.End()
//
// Nothing is pinned. The programs belong to this process, and the kernel removes them when the process exits for any
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
	ICMP = 1 // ICMP in both families
	TCP  = 6
)

// Filter selects the packets to trace. They must use one protocol, have one of the addresses as source or destination,
// and have one of the numbers. It therefore matches both directions. It also matches packets that the node translates,
// because a translation changes only one of the two addresses.
type Filter struct {
	Addrs    []netip.Addr // at most four addresses
	Protocol uint8
	Numbers  []uint16 // an echo's identifier, or one of the ports; at most eight numbers
	VXLAN    uint16   // the UDP port of encapsulated packets; 0 = do not look inside packets
}

const (
	maxAddrs   = 4
	maxNumbers = 8
)

// Kind is what happened to a packet at one place.
type Kind uint32

// The values of Kind.
const (
	Left    Kind = iota // the packet was passed to an interface's driver
	Came                // the packet arrived on an interface
	Dropped             // the packet, or a copy of it, was dropped
)

// Event is one packet at one place.
type Event struct {
	At        time.Duration // time since Open
	Kind      Kind
	Namespace uint32 // the inode of the packet's network namespace, 0 = unknown
	Interface string // "" = the packet has no interface, or no longer has one
	Index     uint32

	Src, Dst netip.AddrPort // of the Filter's packet, without encapsulation or quote; the ports are TCP ports
	Protocol uint8          // number on the wire: 58 is ICMPv6
	Type     uint8          // ICMP type; for TCP, the flags
	Seq      uint32
	TTL      uint8
	Wrapped  bool // true if the packet is inside a tunnel packet
	Quoted   bool // true if the packet is an ICMP error about the Filter's packet

	Reason string   // reason for a drop, as in the kernel's BTF but without SKB_DROP_REASON_: "NETFILTER_DROP"
	Calls  []string // for a drop: the function that dropped the packet, its caller, and so on
}

// Gaps describes events that are missing from a trace.
type Gaps struct {
	More int // number of events beyond the maximum
	// Skipped is the number of times that the kernel did not run one of the trace's programs. This happens if the
	// kernel had interrupted the same program on that CPU. The packet may or may not have been ours.
	Skipped int
}

// callers maps a calling function to its netfilter hook.
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

// Hook returns the netfilter hook in which a packet was dropped, or "" if there is none or it is unknown.
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

// Function returns the function that dropped a packet, or "" if it is unknown.
func (e Event) Function() string {
	if len(e.Calls) == 0 {
		return ""
	}
	return bare(e.Calls[0])
}

// bare returns a function's name without the suffix that the compiler adds: .constprop.0.
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

// UnavailableError reports why drops cannot be traced on this machine. Its text is written for the user.
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

// valid returns nil if a filter is not empty and fits the filter in the kernel.
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
