//go:build !linux

package icmp

import (
	"errors"
	"fmt"
)

func (*pinger) unfragmented() error {
	return fmt.Errorf("forbidding fragments: %w", errors.ErrUnsupported)
}
