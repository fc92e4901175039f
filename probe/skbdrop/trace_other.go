//go:build !linux

package skbdrop

import (
	"errors"
	"fmt"
)

// Trace needs Linux.
type Trace struct{}

// Open needs Linux.
func Open(Filter) (*Trace, error) {
	return nil, fmt.Errorf("following packets through the kernel: %w", errors.ErrUnsupported)
}

// Add needs Linux.
func (*Trace) Add(uint16) error { return errors.ErrUnsupported }

// End needs Linux.
func (*Trace) End() ([]Event, int, error) { return nil, 0, errors.ErrUnsupported }
