//go:build !linux

package reach

import (
	"net/netip"
	"syscall"
)

// errorQueue needs Linux, because other systems do not report ICMP errors.
type errorQueue struct{}

func (errorQueue) open(string, string, syscall.RawConn) error { return nil }

func (errorQueue) close() {}

func (errorQueue) near() netip.AddrPort { return netip.AddrPort{} }

func (errorQueue) last() icmpAnswer { return icmpAnswer{} }
