//go:build !linux

// Package arp asks a link who has an address, and hears every answer, where the kernel keeps one.
package arp

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
)

// Who is for nodes, which run Linux.
func Who(context.Context, *net.Interface, []netip.Addr) (map[netip.Addr][]string, error) {
	return nil, fmt.Errorf("asking a link: %w", errors.ErrUnsupported)
}
