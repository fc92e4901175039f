package skbdrop

import (
	"errors"
	"fmt"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// Control is the Control function for a net.Dialer. It binds the socket to a port before anything is sent, and adds
// the port to the filter.
func (t *Trace) Control(network, _ string, c syscall.RawConn) error {
	var failed error
	err := c.Control(func(fd uintptr) {
		var anywhere unix.Sockaddr = &unix.SockaddrInet4{}
		if strings.HasSuffix(network, "6") {
			anywhere = &unix.SockaddrInet6{}
		}
		if failed = unix.Bind(int(fd), anywhere); failed != nil {
			return
		}
		own, err := unix.Getsockname(int(fd))
		if err != nil {
			failed = err
			return
		}
		switch own := own.(type) {
		case *unix.SockaddrInet4:
			failed = t.add(uint16(own.Port))
		case *unix.SockaddrInet6:
			failed = t.add(uint16(own.Port))
		}
	})
	if err := errors.Join(err, failed); err != nil {
		return fmt.Errorf("taking a port: %w", err)
	}
	return nil
}
