//go:build !linux

package capture

import (
	"context"
	"errors"
	"net/netip"
	"time"
)

// Capture is a packet socket, which only Linux has in this form.
type Capture struct{}

// Open says so.
func Open(Options) (*Capture, error) { return nil, errors.ErrUnsupported }

// VXLAN is for nothing here.
func (*Capture) VXLAN() []uint16 { return nil }

// Next is for nothing here.
func (*Capture) Next(context.Context) (Packet, error) { return Packet{}, errors.ErrUnsupported }

// Dropped is for nothing here.
func (*Capture) Dropped() (int, error) { return 0, errors.ErrUnsupported }

// Close is for nothing here.
func (*Capture) Close() error { return nil }

// Connect is for nothing here.
func Connect(context.Context, netip.AddrPort, Mark, time.Duration) error {
	return errors.ErrUnsupported
}
