package tally

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"net/netip"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"

	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/probe/kernel"
)

// linkColumns lists the interface counters that count sent or lost packets, by their position in struct
// rtnl_link_stats64. The last counter, rx_otherhost_dropped, exists since Linux 5.19.
var linkColumns = map[int]string{0: "rx_packets", 1: "tx_packets", 4: "rx_errors", 5: "tx_errors", 6: "rx_dropped",
	7: "tx_dropped", 15: "rx_missed_errors", 24: "rx_otherhost_dropped"}

// linkTallies reads the counters of all interfaces.
func linkTallies() ([]Tally, error) {
	list, err := kernel.Undisturbed(func() ([][]byte, error) {
		req := nl.NewNetlinkRequest(unix.RTM_GETLINK, unix.NLM_F_DUMP)
		req.AddData(nl.NewIfInfomsg(unix.AF_UNSPEC))
		return req.Execute(unix.NETLINK_ROUTE, unix.RTM_NEWLINK)
	})
	if err != nil {
		return nil, fmt.Errorf("the counters of interfaces: %w", err)
	}
	var out []Tally
	for _, m := range list {
		attrs, err := nl.ParseRouteAttr(m[min(len(m), unix.SizeofIfInfomsg):])
		if err != nil {
			return nil, fmt.Errorf("the counters of interfaces: %w", err)
		}
		name := ""
		var stats []byte
		for _, a := range attrs {
			switch a.Attr.Type {
			case unix.IFLA_IFNAME:
				name = unix.ByteSliceToString(a.Value)
			case unix.IFLA_STATS64:
				stats = a.Value
			}
		}
		for at, column := range linkColumns {
			if len(stats) >= 8*at+8 {
				out = append(out, Tally{Link, name, column, binary.NativeEndian.Uint64(stats[8*at:])})
			}
		}
	}
	return out, nil
}

// queueTallies reads the number of packets that queueing disciplines dropped. The clsact or ingress discipline counts
// packets that a filter drops.
func queueTallies() ([]Tally, error) {
	list, err := kernel.Undisturbed(func() ([]netlink.Qdisc, error) { return netlink.QdiscList(nil) })
	if err != nil {
		return nil, fmt.Errorf("the counters of queues: %w", err)
	}
	links, err := kernel.Links()
	if err != nil {
		return nil, fmt.Errorf("the counters of queues: %w", err)
	}
	names := map[int]string{}
	for _, l := range links {
		names[l.Index] = l.Name
	}
	var out []Tally
	for _, q := range list {
		a := q.Attrs()
		if a.Statistics == nil || a.Statistics.Queue == nil {
			continue
		}
		name := cmp.Or(names[a.LinkIndex], fmt.Sprintf("if%d", a.LinkIndex))
		of := fmt.Sprintf("%s %s %s", name, q.Type(), netlink.HandleStr(a.Handle))
		out = append(out, Tally{Queue, of, "drops", uint64(a.Statistics.Queue.Drops)})
	}
	return out, nil
}

// The data that the kernel provides about a listening socket (linux/inet_diag.h, linux/sock_diag.h).
const (
	diagMessage   = 72 // size of struct inet_diag_msg in bytes
	diagMemory    = 7  // INET_DIAG_SKMEMINFO
	memoryDropped = 8  // SK_MEMINFO_DROPS
)

// listenerTallies reads the number of connections that each listening socket has dropped, up to the
// given number of sockets.
func listenerTallies(most int) ([]Tally, error) {
	var out []Tally
	for _, family := range []uint8{unix.AF_INET, unix.AF_INET6} {
		request := make([]byte, 56) // struct inet_diag_req_v2
		request[0], request[1], request[2] = family, unix.IPPROTO_TCP, 1<<(diagMemory-1)
		binary.NativeEndian.PutUint32(request[4:], uint32(kernel.Listening))
		req := nl.NewNetlinkRequest(nl.SOCK_DIAG_BY_FAMILY, unix.NLM_F_DUMP)
		req.AddRawData(request)
		err := req.ExecuteIter(unix.NETLINK_INET_DIAG, nl.SOCK_DIAG_BY_FAMILY, func(m []byte) bool {
			if len(m) < diagMessage {
				return true
			}
			a := netip.AddrFrom16([16]byte(m[8:]))
			if family == unix.AF_INET {
				a = netip.AddrFrom4([4]byte(m[8:]))
			}
			of := netip.AddrPortFrom(a, binary.BigEndian.Uint16(m[4:])).String()
			attrs, err := nl.ParseRouteAttr(m[diagMessage:])
			if err != nil {
				return true
			}
			for _, attr := range attrs {
				if attr.Attr.Type == diagMemory && len(out) < most && len(attr.Value) >= 4*memoryDropped+4 {
					n := binary.NativeEndian.Uint32(attr.Value[4*memoryDropped:])
					out = append(out, Tally{Listener, of, "drops", uint64(n)})
				}
			}
			return len(out) < most
		})
		if err != nil {
			return out, fmt.Errorf("the counters of listening sockets: %w", err)
		}
	}
	if len(out) == most {
		return out, fmt.Errorf("the counters of listening sockets: %d or more, too many to read: %w", most,
			probe.ErrNotVisible)
	}
	return out, nil
}
