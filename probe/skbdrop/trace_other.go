//go:build !linux

package skbdrop

import (
	"errors"
	"fmt"
	"syscall"
)

// Trace needs Linux.
type Trace struct{}

// Open needs Linux.
func Open(Filter) (*Trace, error) {
	return nil, fmt.Errorf("following packets through the kernel: %w", errors.ErrUnsupported)
}

// Control needs Linux.
func (*Trace) Control(string, string, syscall.RawConn) error { return errors.ErrUnsupported }

// Ports needs Linux.
func (*Trace) Ports() []uint16 { return nil }

// Close needs Linux.
func (*Trace) Close() error { return nil }

// End needs Linux.
func (*Trace) End() ([]Event, Gaps, error) { return nil, Gaps{}, errors.ErrUnsupported }
