//go:build !linux

package checks

import (
	"errors"
	"fmt"
	"net/netip"
	"syscall"
)

// errorQueue needs Linux: elsewhere nobody tells what ICMP said.
type errorQueue struct{}

func (errorQueue) open(string, string, syscall.RawConn) error { return nil }
func (errorQueue) close()                                     {}
func (errorQueue) last() icmpAnswer                           { return icmpAnswer{} }

func promised(to netip.Addr) (int, string, error) {
	return 0, "", fmt.Errorf("asking for the route to %s: %w", to, errors.ErrUnsupported)
}
