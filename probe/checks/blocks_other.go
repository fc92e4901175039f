//go:build !linux

package checks

import (
	"errors"
	"net/netip"
)

func routesTo(int, map[netip.Prefix]bool) (map[netip.Prefix]entry, error) {
	return nil, errors.ErrUnsupported
}
