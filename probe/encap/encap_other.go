//go:build !linux

package encap

import (
	"context"
	"errors"
	"fmt"
)

// Listener needs Linux.
type Listener struct{}

// Listen needs Linux.
func Listen([]Path, uint32) (*Listener, error) {
	return nil, fmt.Errorf("listening for packets: %w", errors.ErrUnsupported)
}

// Close does nothing.
func (*Listener) Close() {}

// Wait is never called, because a Listener never exists.
func (*Listener) Wait(context.Context, int) ([]Arrival, error) { return nil, errors.ErrUnsupported }
