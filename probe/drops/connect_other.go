//go:build !linux

package drops

import (
	"context"
	"errors"
	"net/netip"
	"time"
)

func connects(context.Context, netip.AddrPort, int, time.Duration) (Sent, error) {
	return Sent{}, errors.ErrUnsupported
}
