// Package kernel reads Linux's tables in the current network namespace: routes, interfaces, neighbours, sockets and
// firewall rules. Each table has one reader, which checks, tools and probes in pods share. The package does not
// evaluate entries, its callers do. It uses netlink and does not change anything. On other systems, it returns
// errors.ErrUnsupported.
//
//	way, matched, err := kernel.RouteOf(kernel.Packet{To: addr})
//	links, err := kernel.Links()
//
// If a table changes while it is being read, the package reads it again, up to a few times. Pods come and go on a busy
// node, and a partial table must not look like a fault. If the table changes each time, the package returns an error.
package kernel

import (
	"net/netip"
	"slices"
	"strconv"
	"strings"
)

// Link is a network interface.
type Link struct {
	Index    int
	Name     string
	Kind     string // "veth", "vxlan", "device", ... as in the kernel
	MTU      int
	Up       bool   // the interface is administratively up
	Carrier  bool   // the other end exists and is up
	State    string // operational state from RFC 2863: "up", "lower-layer-down", "unknown", ...
	Loopback bool
	MAC      string
	Addrs    []netip.Prefix
	Master   string // the bridge or bond to which the interface belongs
	VXLAN    *VXLAN // nil for other kinds of interfaces
	Counters
}

// Has reports whether an address belongs to the interface.
func (l Link) Has(a netip.Addr) bool {
	return slices.ContainsFunc(l.Addrs, func(p netip.Prefix) bool { return p.Addr() == a })
}

// VXLAN is the configuration of a VXLAN interface.
type VXLAN struct {
	VNI, Port int
	Local     netip.Addr
	External  bool // each packet has its own destination, so there are no entries
}

// Counters holds the kernel's counters for a Link since the link was created.
type Counters struct {
	BytesIn, BytesOut   uint64
	ErrorsIn, ErrorsOut uint64
	DropsIn, DropsOut   uint64
}

// Neighbour is an entry in the ARP or NDP table, or in a VXLAN interface's forwarding table.
type Neighbour struct {
	Addr   netip.Addr
	Device string
	MAC    string // "" = unknown
	State  string // "reachable", "failed", ...; "noarp" for multicast and loopback; "" = none
	Router bool
}

// NeighbourStates maps the states of a Neighbour (linux/neighbour.h).
var NeighbourStates = map[int]string{0x01: "incomplete", 0x02: "reachable", 0x04: "stale", 0x08: "delay",
	0x10: "probe", 0x20: "failed", 0x40: "noarp", 0x80: "permanent"}

// Socket is a TCP socket.
type Socket struct {
	State     string // "listens", "established", ...
	Near, Far netip.AddrPort
	Inode     uint32 // the socket's process has it open under this number
}

// SocketInode returns a socket's number from the link target of an open file: "socket:[4711]". It returns 0 for
// other files.
func SocketInode(link string) uint32 {
	text, isSocket := strings.CutPrefix(link, "socket:[")
	n, err := strconv.ParseUint(strings.TrimSuffix(text, "]"), 10, 32)
	if !isSocket || err != nil {
		return 0
	}
	return uint32(n)
}

// States is a set of TCP socket states, one bit each.
type States uint32

// The States that a caller can query. No process holds a socket open in time-wait.
const (
	Established States = 1 << 1
	Connecting  States = 1 << 2 // no answer yet
	timeWait    States = 1 << 6
	Listening   States = 1 << 10
	Open        States = 0xfff &^ timeWait
	Connections States = Open &^ Listening
)
