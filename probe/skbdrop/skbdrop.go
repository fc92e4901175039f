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

// Filter names the packets that are looked for: of one protocol, from or to one of some addresses, with one of some
// numbers. So both ways are seen, and what the node translates: it changes one of two addresses.
type Filter struct {
	Addrs    []netip.Addr // four at most
	Protocol uint8
	Numbers  []uint16 // the identifier of an echo, or one of the ports; eight at most
	VXLAN    uint16   // the port at which a packet of UDP wraps another one; 0 = none is looked into
}

const (
	maxAddrs   = 4
	maxNumbers = 8
)

// Kind is what became of a packet in one place.
type Kind uint32

// The kinds of an Event.
const (
	Left    Kind = iota // it was given to an interface's driver
	Came                // it came in by an interface
	Dropped             // a copy of it, or it, was dropped
)

// Event is one packet in one place.
type Event struct {
	At        time.Duration // since Open
	Kind      Kind
	Namespace uint32 // the inode of its network namespace, 0 = not known
	Interface string // "" = it has none (any more)
	Index     uint32

	Src, Dst netip.AddrPort // of the packet of the Filter, whatever wraps or quotes it; ports are those of TCP
	Protocol uint8          // as on the wire: 58 is ICMPv6
	Type     uint8          // of ICMP; of TCP the flags
	Seq      uint32
	TTL      uint8
	Wrapped  bool // it is inside of a tunnel's packet
	Quoted   bool // the packet is an ICMP error about that of the Filter

	Reason string   // of a drop, as the kernel's BTF names it, without SKB_DROP_REASON_: "NETFILTER_DROP"
	Calls  []string // of a drop: the function that dropped it, that which called it, and so on
}

// Gaps are the events that a trace does not show.
type Gaps struct {
	More int // how many more there were than are kept
	// Skipped is how many times the kernel did not run a program of the trace, because it was interrupted in just that
	// program on that CPU: for whichever packet it was, ours or not.
	Skipped int
}

// callers tell netfilter's hook by the function that asks it.
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

// Hook is the netfilter hook in which a packet was dropped, "" = in none, or it does not show.
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

// Function is the one that dropped a packet, "" = it does not show.
func (e Event) Function() string {
	if len(e.Calls) == 0 {
		return ""
	}
	return bare(e.Calls[0])
}

// bare is a function's name without what the compiler adds: .constprop.0.
func bare(function string) string {
	name, _, _ := strings.Cut(function, ".")
	return name
}

// Why says what a kernel lacks to be looked into.
type Why string

// The reasons of an UnavailableError.
const (
	NoBTF     Why = "no-btf"
	NoReasons Why = "no-drop-reasons"
	NoRight   Why = "no-right"
	Lockdown  Why = "lockdown"
)

// UnavailableError says why drops cannot be seen here. Its text is for the user.
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

// valid is nil when the kernel's part has room for a filter, and it names something.
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
