package capture

import (
	"context"
	"net"
	"net/netip"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// Connect opens a TCP connection with a mark, and closes it immediately. It returns an error if no connection opens
// within the limit.
func Connect(ctx context.Context, to netip.AddrPort, mark Mark, limit time.Duration) error {
	dialer := net.Dialer{Timeout: limit, Control: func(_, _ string, raw syscall.RawConn) error {
		var failed error
		err := raw.Control(func(fd uintptr) {
			failed = unix.SetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_MAXSEG, mark.segment())
		})
		if err != nil {
			return err
		}
		return failed
	}}
	conn, err := dialer.DialContext(ctx, "tcp", to.String())
	if err != nil {
		return err
	}
	return conn.Close()
}
