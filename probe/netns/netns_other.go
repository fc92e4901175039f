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
