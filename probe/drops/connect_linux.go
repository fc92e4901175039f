package drops

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/probe/icmp"
)

// connects opens TCP connections concurrently. Each uses only one packet, because connects gives up before the kernel
// sends a second one. It uses only the calling thread, because that thread may be in another namespace.
func connects(ctx context.Context, to netip.AddrPort, number int, limit time.Duration) (Sent, error) {
	out := Sent{Packets: number, Lost: number}
	var open []int
	var waiting []unix.PollFd
	defer func() {
		for _, fd := range open {
			unix.Close(fd)
		}
	}()
	for range number {
		if ctx.Err() != nil {
			break
		}
		fd, err := connect(to)
		if fd >= 0 {
			open = append(open, fd)
		}
		switch {
		case fd < 0:
			return out, fmt.Errorf("opening a TCP socket: %w", err)
		case errors.Is(err, unix.EINPROGRESS):
			waiting = append(waiting, unix.PollFd{Fd: int32(fd), Events: unix.POLLOUT})
		default:
			out.count(fd, err, true)
		}
		time.Sleep(every)
	}
	for end := time.Now().Add(limit); len(waiting) > 0 && time.Now().Before(end) && ctx.Err() == nil; {
		if _, err := unix.Poll(waiting, 20); err != nil && !errors.Is(err, unix.EINTR) {
			return out, fmt.Errorf("waiting for TCP connections: %w", err)
		}
		// Remove finished sockets, because poll would otherwise report them again immediately every time.
		waiting = slices.DeleteFunc(waiting, func(p unix.PollFd) bool {
			if p.Revents != 0 {
				out.count(int(p.Fd), socketError(int(p.Fd)), false)
			}
			return p.Revents != 0
		})
	}
	return out, nil
}

// connect starts a connection. If it cannot create a socket, it returns -1. Otherwise, it returns the error
// of connect(2).
func connect(to netip.AddrPort) (int, error) {
	family, addr := unix.AF_INET6, unix.Sockaddr(&unix.SockaddrInet6{Port: int(to.Port()), Addr: to.Addr().As16()})
	level, option := unix.SOL_IPV6, unix.IPV6_RECVERR
	if to.Addr().Is4() {
		family, addr = unix.AF_INET, &unix.SockaddrInet4{Port: int(to.Port()), Addr: to.Addr().As4()}
		level, option = unix.SOL_IP, unix.IP_RECVERR
	}
	fd, err := unix.Socket(family, unix.SOCK_STREAM|unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return -1, err
	}
	_ = unix.SetsockoptInt(fd, level, option, 1) // without this option, only the errno of an ICMP error is visible
	return fd, unix.Connect(fd, addr)
}

// socketError returns a socket's error, or nil if the socket is connected.
func socketError(fd int) error {
	n, err := unix.GetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_ERROR)
	if err != nil {
		return err
	}
	if n == 0 {
		return nil
	}
	return unix.Errno(n)
}

// count counts one connection that ended with err, whether immediately or later. A reset counts as an answer. An
// ICMP error does not, because it comes from a firewall that rejects packets, or from a router without a route.
func (s *Sent) count(fd int, err error, atOnce bool) {
	icmpError := bounced(fd)
	switch {
	case icmpError != "":
		s.Answer = icmpError
	case err == nil:
		s.Lost--
	case errors.Is(err, unix.ECONNREFUSED):
		s.Lost--
		s.Answer = "refused: nothing listens there, or a firewall rejects it"
	case !atOnce: // an ICMP error on a kernel that does not report who sent it
		s.Answer = "the error " + probe.Reason(err)
	case errors.Is(err, unix.EPERM):
		s.Refused = "denied"
	case errors.Is(err, unix.EINVAL):
		s.Refused = "blackhole"
	default:
		s.Refused = probe.Reason(err)
	}
}

// bounced describes the ICMP error that ended a connection. It returns "" if there was no such error, or if the
// kernel does not report it (before 5.10).
func bounced(fd int) string {
	beside := make([]byte, 256)
	_, n, _, _, err := unix.Recvmsg(fd, make([]byte, 1), beside, unix.MSG_ERRQUEUE|unix.MSG_DONTWAIT)
	if err != nil {
		return ""
	}
	messages, err := unix.ParseSocketControlMessage(beside[:n])
	if err != nil {
		return ""
	}
	const head = 16 // size of struct sock_extended_err in bytes; the sender's address follows
	for _, m := range messages {
		v4 := m.Header.Level == unix.SOL_IP && m.Header.Type == unix.IP_RECVERR
		if !v4 && (m.Header.Level != unix.SOL_IPV6 || m.Header.Type != unix.IPV6_RECVERR) || len(m.Data) < head+8 {
			continue
		}
		origin, kind, code := m.Data[4], m.Data[5], int(m.Data[6])
		unreachable, from := uint8(1), netip.Addr{}
		switch {
		case v4 && origin == unix.SO_EE_ORIGIN_ICMP:
			unreachable, from = 3, netip.AddrFrom4([4]byte(m.Data[head+4:]))
		case !v4 && origin == unix.SO_EE_ORIGIN_ICMP6 && len(m.Data) >= head+24:
			from = netip.AddrFrom16([16]byte(m.Data[head+8:]))
		default:
			continue
		}
		if kind != unreachable {
			return fmt.Sprintf("an ICMP error from %s, type %d, code %d", from, kind, code)
		}
		text, _ := icmp.Unreachable(code, v4)
		return fmt.Sprintf("destination unreachable from %s, code %d (%s)", from, code, text)
	}
	return ""
}
