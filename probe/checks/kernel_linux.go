package checks

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/netip"
	"os"
	"strconv"
	"strings"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/probe/autodetect"
)

// routeProtoFelix is what Felix writes on its routes (felix/dataplane/linux,
// DefaultRouteProto); no table of iproute2 has a name for it.
const routeProtoFelix = 80

// lookup asks the kernel for the way to an address. An error of the kernel's own
// wraps its errno.
func lookup(to netip.Addr) (hop, error) {
	routes, err := netlink.RouteGet(to.AsSlice())
	if err != nil {
		return hop{}, fmt.Errorf("asking for the route to %s: %w", to, err)
	}
	if len(routes) == 0 {
		return hop{}, fmt.Errorf("asking for the route to %s: %w", to, errors.New("the kernel answers nothing"))
	}
	var way hop
	way.gateway, _ = netip.AddrFromSlice(routes[0].Gw)
	way.source, _ = netip.AddrFromSlice(routes[0].Src)
	way.gateway, way.source = way.gateway.Unmap(), way.source.Unmap()
	link, err := netlink.LinkByIndex(routes[0].LinkIndex)
	if err != nil {
		return hop{}, fmt.Errorf("asking for interface %d: %w", routes[0].LinkIndex, err)
	}
	way.device = link.Attrs().Name
	// Kernels before 4.13 do not tell which route matched; then that stays open.
	if matched, err := netlink.RouteGetWithOptions(to.AsSlice(), &netlink.RouteGetOptions{FIBMatch: true}); err == nil && len(matched) > 0 {
		way.match = netip.PrefixFrom(unspecified(to), 0) // a default route has no destination
		if d := matched[0].Dst; d != nil {
			if a, ok := netip.AddrFromSlice(d.IP); ok {
				bits, _ := d.Mask.Size()
				way.match = netip.PrefixFrom(a.Unmap(), bits)
			}
		}
		way.proto = matched[0].Protocol.String()
		if matched[0].Protocol == routeProtoFelix {
			way.proto = "felix"
		}
	}
	return way, nil
}

func unspecified(a netip.Addr) netip.Addr {
	if a.Is4() {
		return netip.IPv4Unspecified()
	}
	return netip.IPv6Unspecified()
}

// listening gives the addresses of this network namespace that listen on a TCP
// port.
func listening(port uint16) ([]string, error) {
	out := []string{}
	err := tcpSockets(func(s *netlink.Socket) {
		if s.State == netlink.TCP_LISTEN && s.ID.SourcePort == port {
			out = append(out, net.JoinHostPort(s.ID.Source.String(), strconv.Itoa(int(port))))
		}
	})
	return out, err
}

// connected gives the addresses that this network namespace has a TCP connection
// with, whose one end has the port.
func connected(port uint16) (map[netip.Addr]bool, error) {
	out := map[netip.Addr]bool{}
	err := tcpSockets(func(s *netlink.Socket) {
		if s.State == netlink.TCP_ESTABLISHED && (s.ID.SourcePort == port || s.ID.DestinationPort == port) {
			if a, ok := netip.AddrFromSlice(s.ID.Destination); ok {
				out[a.Unmap()] = true
			}
		}
	})
	return out, err
}

// tcpByInode describes the TCP sockets of this network namespace under the names
// that a process's file descriptors link to: socket:[4711].
func tcpByInode() (map[string]string, error) {
	out := map[string]string{}
	err := tcpSockets(func(s *netlink.Socket) {
		end := func(ip net.IP, port uint16) string { return net.JoinHostPort(ip.String(), strconv.Itoa(int(port))) }
		out[fmt.Sprintf("socket:[%d]", s.INode)] = fmt.Sprintf("TCP %s to %s, %s", end(s.ID.Source, s.ID.SourcePort), end(s.ID.Destination, s.ID.DestinationPort), tcpStates[s.State])
	})
	return out, err
}

// tcpStates are the states of a TCP connection (RFC 9293), as the kernel counts
// them.
var tcpStates = map[uint8]string{
	netlink.TCP_ESTABLISHED: "established", netlink.TCP_SYN_SENT: "syn-sent", netlink.TCP_SYN_RECV: "syn-received", netlink.TCP_FIN_WAIT1: "fin-wait-1",
	netlink.TCP_FIN_WAIT2: "fin-wait-2", netlink.TCP_CLOSE: "closed", netlink.TCP_CLOSE_WAIT: "close-wait", netlink.TCP_LAST_ACK: "last-ack",
	netlink.TCP_LISTEN: "listens", netlink.TCP_CLOSING: "closing",
}

func tcpSockets(each func(*netlink.Socket)) error {
	for _, family := range []uint8{unix.AF_INET, unix.AF_INET6} {
		sockets, err := netlink.SocketDiagTCP(family)
		if err != nil {
			return fmt.Errorf("asking for TCP sockets: %w", err)
		}
		for _, s := range sockets {
			each(s)
		}
	}
	return nil
}

// interfaces lists the interfaces of this network namespace.
func interfaces() ([]autodetect.Interface, error) {
	links, err := netlink.LinkList()
	if err != nil {
		return nil, fmt.Errorf("listing interfaces: %w", err)
	}
	var out []autodetect.Interface
	for _, l := range links {
		i := autodetect.Interface{Index: l.Attrs().Index, Name: l.Attrs().Name, Kind: l.Type()}
		addrs, err := netlink.AddrList(l, netlink.FAMILY_ALL)
		if err != nil {
			return nil, fmt.Errorf("listing addresses of %s: %w", i.Name, err)
		}
		for _, a := range addrs {
			if ip, ok := netip.AddrFromSlice(a.IP); ok {
				bits, _ := a.Mask.Size()
				i.Addrs = append(i.Addrs, netip.PrefixFrom(ip.Unmap(), bits))
			}
		}
		out = append(out, i)
	}
	return out, nil
}

// usage is how full the file system under a path is.
func usage(full string) (disk, error) {
	var st unix.Statfs_t
	if err := unix.Statfs(full, &st); err != nil {
		return disk{}, fmt.Errorf("asking how full %s is: %w", full, err)
	}
	d := disk{id: uint64(uint32(st.Fsid.Val[0]))<<32 | uint64(uint32(st.Fsid.Val[1])), free: 100, freeInodes: 100,
		total: st.Blocks * uint64(st.Bsize)}
	if st.Blocks > 0 {
		d.free = float64(st.Bavail) * 100 / float64(st.Blocks-st.Bfree+st.Bavail)
	}
	if st.Files > 0 {
		d.freeInodes = float64(st.Ffree) * 100 / float64(st.Files)
	}
	return d, nil
}

// synchronised tells whether something keeps the kernel's clock right.
func synchronised() (bool, error) {
	var t unix.Timex
	if _, err := unix.Adjtimex(&t); err != nil { // modes 0: only asks
		return false, fmt.Errorf("asking for the state of the clock: %w", err)
	}
	return t.Status&unix.STA_UNSYNC == 0, nil
}

// neighbours lists the kernel's table of a family, without the entries that are
// about no neighbour (multicast, loopback).
func neighbours(family int) ([]neighbour, error) {
	af := unix.AF_INET
	if family == 6 {
		af = unix.AF_INET6
	}
	list, err := netlink.NeighList(0, af)
	if err != nil {
		return nil, fmt.Errorf("listing neighbours: %w", err)
	}
	states := map[int]string{
		netlink.NUD_INCOMPLETE: "incomplete", netlink.NUD_REACHABLE: "reachable", netlink.NUD_STALE: "stale", netlink.NUD_DELAY: "delay",
		netlink.NUD_PROBE: "probe", netlink.NUD_FAILED: "failed", netlink.NUD_PERMANENT: "permanent",
	}
	var out []neighbour
	for _, n := range list {
		if a, ok := netip.AddrFromSlice(n.IP); ok && states[n.State] != "" {
			out = append(out, neighbour{a.Unmap(), states[n.State]})
		}
	}
	return out, nil
}

// lockHeld tells whether somebody holds a file's lock (flock), and who by
// /proc/locks, 0 when that does not tell. It asks for a shared lock and gives it
// back at once. A file that is not there is held by nobody.
func lockHeld(h *probe.Host, full string) (held bool, holder int, err error) {
	f, err := os.Open(full)
	if errors.Is(err, fs.ErrNotExist) {
		return false, 0, nil
	}
	if err != nil {
		return false, 0, fmt.Errorf("opening the lock: %w", errors.Unwrap(err))
	}
	defer f.Close()
	err = unix.Flock(int(f.Fd()), unix.LOCK_SH|unix.LOCK_NB)
	if err == nil {
		return false, 0, nil
	}
	if !errors.Is(err, unix.EWOULDBLOCK) {
		return false, 0, fmt.Errorf("asking for the lock: %w", err)
	}
	var st unix.Stat_t
	if err := unix.Fstat(int(f.Fd()), &st); err != nil {
		return true, 0, nil
	}
	// 1: FLOCK  ADVISORY  WRITE 4711 08:01:131 0 EOF
	table, err := readProc(h, "locks")
	if err != nil {
		return true, 0, nil
	}
	for line := range strings.Lines(table) {
		f := strings.Fields(line)
		if len(f) > 5 && f[1] == "FLOCK" && strings.HasSuffix(f[5], ":"+strconv.FormatUint(st.Ino, 10)) {
			holder, _ = strconv.Atoi(f[4])
		}
	}
	return true, holder, nil
}
