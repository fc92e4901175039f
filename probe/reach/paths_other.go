//go:build !linux

package reach

import (
	"net/netip"
	"syscall"
)

// errorQueue needs Linux: elsewhere nobody tells what ICMP said.
type errorQueue struct{}

func (errorQueue) open(string, string, syscall.RawConn) error { return nil }

func (errorQueue) close() {}

func (errorQueue) near() netip.AddrPort { return netip.AddrPort{} }

func (errorQueue) last() icmpAnswer { return icmpAnswer{} }
