package checks

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/netip"
	"os"
	"strconv"
	"strings"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"

	"github.com/calico-probe/calico-probe/probe"
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
	err := tcpSockets(1<<netlink.TCP_LISTEN, port, 0, func(s tcpSocket) { out = append(out, s.near.String()) })
	return out, err
}

// connected gives the addresses that this network namespace has a TCP connection
// with, whose one end has the port.
func connected(port uint16) (map[netip.Addr]bool, error) {
	out := map[netip.Addr]bool{}
	take := func(s tcpSocket) { out[s.far.Addr()] = true }
	err := tcpSockets(1<<netlink.TCP_ESTABLISHED, port, 0, take)
	if err == nil {
		err = tcpSockets(1<<netlink.TCP_ESTABLISHED, 0, port, take)
	}
	return out, err
}

// tcpByInode describes the TCP sockets of this network namespace that have these
// numbers.
func tcpByInode(wanted map[uint32]bool) (map[uint32]string, error) {
	out := map[uint32]string{}
	err := tcpSockets(everyState, 0, 0, func(s tcpSocket) {
		if wanted[s.inode] {
			out[s.inode] = fmt.Sprintf("TCP %s to %s, %s", s.near, s.far, tcpStates[s.state])
		}
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

// everyState is all of them but time-wait: no process has such a socket open.
const everyState = 0xfff &^ (1 << netlink.TCP_TIME_WAIT)

type tcpSocket struct {
	state     uint8
	near, far netip.AddrPort
	inode     uint32
}

// tcpSockets has the kernel choose sockets by their states, one bit each, and by the
// port of either end, 0 for any. They are looked at one by one: a busy node has
// hundreds of thousands (linux/inet_diag.h).
func tcpSockets(states uint32, near, far uint16, each func(tcpSocket)) error {
	for _, family := range []uint8{unix.AF_INET, unix.AF_INET6} {
		asked := make([]byte, 56) // struct inet_diag_req_v2
		asked[0], asked[1] = family, unix.IPPROTO_TCP
		binary.NativeEndian.PutUint32(asked[4:], states)
		binary.BigEndian.PutUint16(asked[8:], near)
		binary.BigEndian.PutUint16(asked[10:], far)
		req := nl.NewNetlinkRequest(nl.SOCK_DIAG_BY_FAMILY, unix.NLM_F_DUMP)
		req.AddRawData(asked)
		err := req.ExecuteIter(unix.NETLINK_INET_DIAG, nl.SOCK_DIAG_BY_FAMILY, func(m []byte) bool {
			if len(m) < 72 { // struct inet_diag_msg
				return true
			}
			end := func(port, addr int) netip.AddrPort {
				a := netip.AddrFrom16([16]byte(m[addr:])).Unmap()
				if m[0] == unix.AF_INET {
					a = netip.AddrFrom4([4]byte(m[addr:]))
				}
				return netip.AddrPortFrom(a, binary.BigEndian.Uint16(m[port:]))
			}
			each(tcpSocket{state: m[1], near: end(4, 8), far: end(6, 24), inode: binary.NativeEndian.Uint32(m[68:])})
			return true
		})
		if err != nil {
			return fmt.Errorf("asking for TCP sockets: %w", err)
		}
	}
	return nil
}

// Sockets gives the TCP sockets of this network namespace one by one: those that listen,
// or the others that a process has open. Inode is the number that its process knows one by.
func Sockets(listening bool, each func(state string, near, far netip.AddrPort, inode uint32)) error {
	states := uint32(everyState &^ (1 << netlink.TCP_LISTEN))
	if listening {
		states = 1 << netlink.TCP_LISTEN
	}
	return tcpSockets(states, 0, 0, func(s tcpSocket) { each(tcpStates[s.state], s.near, s.far, s.inode) })
}

// usage is how full the file system is on which something lies.
func usage(at *os.File) (disk, error) {
	var st unix.Statfs_t
	if err := unix.Fstatfs(int(at.Fd()), &st); err != nil {
		return disk{}, fmt.Errorf("asking how full %s is: %w", at.Name(), err)
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
	list, err := neighboursOn(0, family)
	if err != nil {
		return nil, err
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

// neighboursOn lists the kernel's table of a family for one interface, 0 for all.
func neighboursOn(index, family int) ([]netlink.Neigh, error) {
	list, err := Undisturbed(func() ([]netlink.Neigh, error) { return netlink.NeighList(index, addressFamily(family)) })
	if err != nil {
		return nil, fmt.Errorf("listing neighbours: %w", err)
	}
	return list, nil
}

// addressFamily is what the kernel calls 4 or 6.
func addressFamily(family int) int {
	if family == 6 {
		return unix.AF_INET6
	}
	return unix.AF_INET
}

// lockHeld tells whether somebody holds a file's lock (flock), and who by
// /proc/locks, 0 when that does not tell. It asks for a shared lock and gives it
// back at once. A file that is not there is held by nobody.
func lockHeld(h *probe.Host, name string) (held bool, holder int, err error) {
	f, err := h.Open(name)
	if errors.Is(err, fs.ErrNotExist) {
		return false, 0, nil
	}
	if err != nil {
		return false, 0, err
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

// listenerOnNode is nil when the process that listens on a socket runs on the node: a pod that may
// write to the folder can put a socket of its own there. Who it is the kernel tells by its
// number in this probe's process namespace, which is of use with the proc file system of
// that one.
func listenerOnNode(h *probe.Host, conn net.Conn) error {
	unixConn, ok := conn.(*net.UnixConn)
	if !ok {
		return nil
	}
	raw, err := unixConn.SyscallConn()
	if err != nil {
		return fmt.Errorf("asking who listens: %w", err)
	}
	var who *unix.Ucred
	var failed error
	err = raw.Control(func(fd uintptr) { who, failed = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED) })
	if err = errors.Join(err, failed); err != nil {
		return fmt.Errorf("asking who listens: %w", err)
	}
	if h.Proc == "/proc" && who.Pid > 0 {
		if same, seen := nodesNetwork(h, int(who.Pid)); same {
			return nil
		} else if seen {
			return fmt.Errorf("process %d listens there, in a network namespace that is not the node's: not this node's BIRD", who.Pid)
		}
	}
	if who.Uid != 0 && int(who.Uid) != os.Geteuid() {
		return fmt.Errorf("a process of user %d listens there, not root's: not accepted as BIRD", who.Uid)
	}
	return nil
}
