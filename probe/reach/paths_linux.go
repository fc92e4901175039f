package reach

import (
	"encoding/binary"
	"fmt"
	"net/netip"
	"syscall"

	"golang.org/x/sys/unix"
)

// errorQueue keeps a socket open until its ICMP errors have been read. The connection's error alone does not show
// whether the target sent a reset or a firewall refused. It also does not show who refused. Kernels before 5.15 have
// no such queue for TCP, so nothing can be read.
type errorQueue struct{ fd int }

// open is the Control function for a net.Dialer.
func (q *errorQueue) open(network, _ string, c syscall.RawConn) error {
	var failed error
	err := c.Control(func(fd uintptr) {
		level, option := unix.SOL_IP, unix.IP_RECVERR
		if network == "tcp6" {
			level, option = unix.SOL_IPV6, unix.IPV6_RECVERR
		}
		if failed = unix.SetsockoptInt(int(fd), level, option, 1); failed == nil {
			q.fd, failed = unix.FcntlInt(fd, unix.F_DUPFD_CLOEXEC, 3)
		}
	})
	if err == nil {
		err = failed
	}
	if err != nil {
		return fmt.Errorf("preparing a socket: %w", err)
	}
	return nil
}

func (q *errorQueue) close() {
	if q.fd > 0 {
		unix.Close(q.fd)
	}
}

// near returns the socket's local end. It is invalid once the kernel has given up on the connection.
func (q *errorQueue) near() netip.AddrPort {
	if q.fd == 0 {
		return netip.AddrPort{}
	}
	name, err := unix.Getsockname(q.fd)
	if err != nil {
		return netip.AddrPort{}
	}
	switch at := name.(type) {
	case *unix.SockaddrInet4:
		return netip.AddrPortFrom(netip.AddrFrom4(at.Addr), uint16(at.Port))
	case *unix.SockaddrInet6:
		return netip.AddrPortFrom(netip.AddrFrom16(at.Addr).Unmap(), uint16(at.Port))
	}
	return netip.AddrPort{}
}

// last returns the socket's newest ICMP error.
func (q *errorQueue) last() icmpAnswer {
	var found icmpAnswer
	if q.fd == 0 {
		return found
	}
	buf, oob := make([]byte, 512), make([]byte, 512)
	for {
		_, n, _, _, err := unix.Recvmsg(q.fd, buf, oob, unix.MSG_ERRQUEUE|unix.MSG_DONTWAIT)
		if err != nil {
			return found
		}
		messages, err := unix.ParseSocketControlMessage(oob[:n])
		if err != nil {
			return found
		}
		for _, m := range messages {
			if answer, ok := parseICMPError(m); ok {
				found = answer
			}
		}
	}
}

// parseICMPError parses a struct sock_extended_err and the address that follows it (linux/errqueue.h): errno,
// origin, type, code, pad, info, data, offender.
func parseICMPError(m unix.SocketControlMessage) (icmpAnswer, bool) {
	const head = 16
	b := m.Data
	if len(b) < head+8 {
		return icmpAnswer{}, false
	}
	origin, kind, code, offender := b[4], b[5], b[6], b[head:]
	switch {
	case m.Header.Level == unix.SOL_IP && m.Header.Type == unix.IP_RECVERR && origin == unix.SO_EE_ORIGIN_ICMP &&
		kind == 3 && binary.NativeEndian.Uint16(offender) == unix.AF_INET:
		return Unreachable(code, true, netip.AddrFrom4([4]byte(offender[4:8]))), true
	case m.Header.Level == unix.SOL_IPV6 && m.Header.Type == unix.IPV6_RECVERR && origin == unix.SO_EE_ORIGIN_ICMP6 &&
		kind == 1 && len(offender) >= 24 && binary.NativeEndian.Uint16(offender) == unix.AF_INET6:
		return Unreachable(code, false, netip.AddrFrom16([16]byte(offender[8:24]))), true
	}
	return icmpAnswer{}, false
}
