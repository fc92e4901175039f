//go:build !linux

package node

import (
	"errors"
	"net"

	"github.com/calico-probe/calico-probe/probe"
)

func listenerOnNode(*probe.Host, net.Conn) error { return nil }

func LockHeld(*probe.Host, string) (bool, int, error) { return false, 0, errors.ErrUnsupported }
