//go:build !linux

package tools

import (
	"context"
	"errors"
	"fmt"

	"github.com/calico-probe/calico-probe/probe"
)

// errNetlink: elsewhere than on Linux nobody asks a kernel this way.
var errNetlink = fmt.Errorf("asking the kernel: %w", errors.ErrUnsupported)

func (getting) run(context.Context, *probe.Job) probe.Result { return unread(errNetlink) }

func routes(int, int, int, func(way) bool) ([]way, error) { return nil, errNetlink }

func links() ([]link, error) { return nil, errNetlink }

func neighbours() ([]neighbour, error) { return nil, errNetlink }
