//go:build !linux

// Package arp finds duplicate addresses. Who broadcasts ARP requests on a link and returns every answer for an
// address. The kernel's own table keeps only one answer.
package arp

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
)

// Who needs Linux, which every node runs.
func Who(context.Context, *net.Interface, netip.Addr, []netip.Addr) (map[netip.Addr][]string, error) {
	return nil, fmt.Errorf("sending ARP requests: %w", errors.ErrUnsupported)
}
