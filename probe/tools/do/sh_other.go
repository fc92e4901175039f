//go:build !linux

package do

import (
	"context"
	"errors"
	"fmt"

	"github.com/calico-probe/calico-probe/probe"
)

func (s shell) run(context.Context, *probe.Job) probe.Result {
	return probe.Failed(fmt.Errorf("a shell on this system: %w", errors.ErrUnsupported))
}
