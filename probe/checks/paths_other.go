//go:build !linux

package checks

import (
	"syscall"
)

// errorQueue needs Linux: elsewhere nobody tells what ICMP said.
type errorQueue struct{}

func (errorQueue) open(string, string, syscall.RawConn) error { return nil }
func (errorQueue) close()                                     {}
func (errorQueue) last() icmpAnswer                           { return icmpAnswer{} }
