package kernel

import (
	"encoding/binary"
	"fmt"
	"net/netip"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"
)

// tcpStates maps the kernel's numbers to the states of a TCP connection (RFC 9293).
var tcpStates = map[uint8]string{
	netlink.TCP_ESTABLISHED: "established", netlink.TCP_SYN_SENT: "syn-sent", netlink.TCP_SYN_RECV: "syn-received",
	netlink.TCP_FIN_WAIT1: "fin-wait-1", netlink.TCP_FIN_WAIT2: "fin-wait-2", netlink.TCP_CLOSE: "closed",
	netlink.TCP_CLOSE_WAIT: "close-wait", netlink.TCP_LAST_ACK: "last-ack", netlink.TCP_LISTEN: "listens",
	netlink.TCP_CLOSING: "closing",
}

// TCP calls each for every TCP socket that is in one of the states and has the given local and remote port, 0 =
// any. The kernel filters the sockets and returns them one by one, because a busy node has hundreds of thousands
// (linux/inet_diag.h).
func TCP(states States, near, far uint16, each func(Socket)) error {
	for _, family := range []uint8{unix.AF_INET, unix.AF_INET6} {
		request := make([]byte, 56) // struct inet_diag_req_v2
		request[0], request[1] = family, unix.IPPROTO_TCP
		binary.NativeEndian.PutUint32(request[4:], uint32(states))
		binary.BigEndian.PutUint16(request[8:], near)
		binary.BigEndian.PutUint16(request[10:], far)
		req := nl.NewNetlinkRequest(nl.SOCK_DIAG_BY_FAMILY, unix.NLM_F_DUMP)
		req.AddRawData(request)
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
			each(Socket{tcpStates[m[1]], end(4, 8), end(6, 24), binary.NativeEndian.Uint32(m[68:])})
			return true
		})
		if err != nil {
			return fmt.Errorf("listing TCP sockets: %w", err)
		}
	}
	return nil
}
