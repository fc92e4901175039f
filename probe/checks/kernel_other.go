//go:build !linux

package checks

import (
	"errors"
	"fmt"
	"net/netip"

	"github.com/calico-probe/calico-probe/probe/autodetect"
)

func lookup(netip.Addr) (hop, error) {
	return hop{}, fmt.Errorf("asking the kernel for routes: %w", errors.ErrUnsupported)
}

func listening(uint16) ([]string, error) {
	return nil, fmt.Errorf("asking the kernel for sockets: %w", errors.ErrUnsupported)
}

func interfaces() ([]autodetect.Interface, error) {
	return nil, fmt.Errorf("asking the kernel for interfaces: %w", errors.ErrUnsupported)
}
