// Package kernel reads Linux's tables of the current network namespace: routes, interfaces, neighbours, sockets,
// firewall rules. Each table has one reader, which checks, tools and probes in pods share. The package does not judge
// entries: its callers do. It uses netlink, changes nothing, and on other systems returns errors.ErrUnsupported.
//
//	way, matched, err := kernel.RouteOf(kernel.Packet{To: addr})
//	links, err := kernel.Links()
//
// A table that changes while it is read is read again, a few times. Pods come and go on a busy node, and half a table
// must not look like a fault. If it changes each time, that is an error.
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
	Kind     string // "veth", "vxlan", "device", ... as the kernel calls it
	MTU      int
	Up       bool   // it is switched on
	Carrier  bool   // the other end is there
	State    string // of operation, as RFC 2863 has it: "up", "lower-layer-down", "unknown", ...
	Loopback bool
	MAC      string
	Addrs    []netip.Prefix
	Master   string // the bridge or bond that it is part of
	VXLAN    *VXLAN // nil for other kinds
	Counters
}

// Has tells whether an address is one of the interface's.
func (l Link) Has(a netip.Addr) bool {
	return slices.ContainsFunc(l.Addrs, func(p netip.Prefix) bool { return p.Addr() == a })
}

// VXLAN is what an interface of that kind is set to.
type VXLAN struct {
	VNI, Port int
	Local     netip.Addr
	External  bool // each packet says where it goes: there are no entries
}

// Counters are what the kernel has counted of a Link since it was made.
type Counters struct {
	BytesIn, BytesOut   uint64
	ErrorsIn, ErrorsOut uint64
	DropsIn, DropsOut   uint64
}

// Neighbour is an entry of the ARP or NDP table, or of a VXLAN interface's forwarding table.
type Neighbour struct {
	Addr   netip.Addr
	Device string
	MAC    string // "" = not known
	State  string // "reachable", "failed", ...; "noarp" for multicast and loopback; "" = none
	Router bool
}

// NeighbourStates are the states of a Neighbour (linux/neighbour.h).
var NeighbourStates = map[int]string{0x01: "incomplete", 0x02: "reachable", 0x04: "stale", 0x08: "delay",
	0x10: "probe", 0x20: "failed", 0x40: "noarp", 0x80: "permanent"}

// Socket is a TCP socket.
type Socket struct {
	State     string // "listens", "established", ...
	Near, Far netip.AddrPort
	Inode     uint32 // by which its process knows it
}

// SocketInode is the number of a socket in what an open file of a process leads to:
// "socket:[4711]"; 0 for other files.
func SocketInode(link string) uint32 {
	text, isSocket := strings.CutPrefix(link, "socket:[")
	n, err := strconv.ParseUint(strings.TrimSuffix(text, "]"), 10, 32)
	if !isSocket || err != nil {
		return 0
	}
	return uint32(n)
}

// States choose TCP sockets by their state, one bit each.
type States uint32

// The States that are asked for. No process has a socket in time-wait open.
const (
	Established States = 1 << 1
	Connecting  States = 1 << 2 // nothing has answered yet
	timeWait    States = 1 << 6
	Listening   States = 1 << 10
	Open        States = 0xfff &^ timeWait
	Connections States = Open &^ Listening
)
