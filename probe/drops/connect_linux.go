package drops

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"time"

	"golang.org/x/sys/unix"

	"github.com/calico-probe/calico-probe/probe"
)

// connects opens a number of TCP connections side by side, each by one packet: they are given up before the kernel
// would send a second one. All of it is done on the thread that asks, which may be in another namespace.
func connects(ctx context.Context, to netip.AddrPort, number int, limit time.Duration) (Sent, error) {
	out := Sent{Packets: number, Lost: number}
	family, addr := unix.AF_INET6, unix.Sockaddr(&unix.SockaddrInet6{Port: int(to.Port()), Addr: to.Addr().As16()})
	if to.Addr().Is4() {
		family, addr = unix.AF_INET, &unix.SockaddrInet4{Port: int(to.Port()), Addr: to.Addr().As4()}
	}
	var open []unix.PollFd
	defer func() {
		for _, p := range open {
			unix.Close(int(p.Fd))
		}
	}()
	for range number {
		fd, err := unix.Socket(family, unix.SOCK_STREAM|unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC, 0)
		if err != nil {
			return out, fmt.Errorf("opening a TCP socket: %w", err)
		}
		open = append(open, unix.PollFd{Fd: int32(fd), Events: unix.POLLOUT})
		if err := unix.Connect(fd, addr); err != nil && !errors.Is(err, unix.EINPROGRESS) {
			out.hear(err)
			open[len(open)-1].Events = 0
		}
		time.Sleep(every)
	}
	for end := time.Now().Add(limit); time.Now().Before(end) && ctx.Err() == nil; {
		waiting := 0
		if _, err := unix.Poll(open, 20); err != nil && !errors.Is(err, unix.EINTR) {
			return out, fmt.Errorf("waiting for TCP connections: %w", err)
		}
		for i := range open {
			if open[i].Events != 0 && open[i].Revents != 0 {
				open[i].Events = 0
				out.hear(socketError(int(open[i].Fd)))
			}
			if open[i].Events != 0 {
				waiting++
			}
		}
		if waiting == 0 {
			break
		}
	}
	return out, nil
}

// socketError is what a socket ended with, nil where it is connected.
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

// hear counts one connection: a refusal is an answer.
func (s *Sent) hear(err error) {
	switch {
	case err == nil:
		s.Lost--
	case errors.Is(err, unix.ECONNREFUSED):
		s.Lost--
		s.Answer = "refused: nothing listens there"
	case errors.Is(err, unix.EPERM):
		s.Refused = "denied"
	case errors.Is(err, unix.EINVAL):
		s.Refused = "blackhole"
	default:
		s.Refused = probe.Reason(err)
	}
}
