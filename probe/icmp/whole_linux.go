package icmp

import (
	"errors"
	"fmt"
	"net"
	"syscall"

	"golang.org/x/sys/unix"
)

// unfragmented forbids fragmentation, even for packets that exceed the path MTU that the kernel has cached, because
// the caller measures that MTU.
func (p *pinger) unfragmented() error {
	level, option, mode := unix.IPPROTO_IPV6, unix.IPV6_MTU_DISCOVER, unix.IPV6_PMTUDISC_PROBE
	var conn net.PacketConn
	if p.v4 {
		level, option, mode = unix.IPPROTO_IP, unix.IP_MTU_DISCOVER, unix.IP_PMTUDISC_PROBE
		conn = p.conn.IPv4PacketConn().PacketConn
	} else {
		conn = p.conn.IPv6PacketConn().PacketConn
	}
	socket, ok := conn.(syscall.Conn)
	if !ok {
		return fmt.Errorf("forbidding fragments: %w", errors.ErrUnsupported)
	}
	raw, err := socket.SyscallConn()
	if err != nil {
		return fmt.Errorf("forbidding fragments: %w", err)
	}
	var failed error
	if err := raw.Control(func(fd uintptr) {
		failed = unix.SetsockoptInt(int(fd), level, option,
			mode)
	}); err != nil || failed != nil {
		return fmt.Errorf("forbidding fragments: %w", errors.Join(err, failed))
	}
	return nil
}
