//go:build !linux

package capture

import (
	"context"
	"errors"
	"net/netip"
	"time"
)

// Capture is a packet socket. Only Linux has packet sockets of this kind.
type Capture struct{}

// Open needs Linux.
func Open(Options) (*Capture, error) { return nil, errors.ErrUnsupported }

// VXLAN needs Linux.
func (*Capture) VXLAN() []uint16 { return nil }

// Next needs Linux.
func (*Capture) Next(context.Context) (Packet, error) { return Packet{}, errors.ErrUnsupported }

// Dropped needs Linux.
func (*Capture) Dropped() (int, error) { return 0, errors.ErrUnsupported }

// Close needs Linux.
func (*Capture) Close() error { return nil }

// Connect needs Linux.
func Connect(context.Context, netip.AddrPort, Mark, time.Duration) error {
	return errors.ErrUnsupported
}
