//go:build !linux

package netns

import (
	"context"
	"errors"
	"fmt"

	"github.com/calico-probe/calico-probe/probe"
)

// Run needs Linux.
func (Entry) Run(context.Context, probe.Target, probe.Request, func(probe.Event)) error {
	return fmt.Errorf("network namespaces: %w", errors.ErrUnsupported)
}

// View needs Linux.
type View struct{}

// View needs Linux.
func (Entry) View(probe.Target) (*View, error) {
	return nil, fmt.Errorf("network namespaces: %w", errors.ErrUnsupported)
}

// OfProcess needs Linux.
func OfProcess(*probe.Host, int) (*View, error) {
	return nil, fmt.Errorf("network namespaces: %w", errors.ErrUnsupported)
}

// Do needs Linux.
func (*View) Do(func(h *probe.Host) error) error { return errors.ErrUnsupported }

// Close needs Linux.
func (*View) Close() {}
