//go:build !linux

package checks

import (
	"errors"
	"net"
	"os"

	"github.com/calico-probe/calico-probe/probe"
)

func usage(*os.File) (disk, error) { return disk{}, errors.ErrUnsupported }

func synchronised() (bool, error) { return false, errors.ErrUnsupported }

func listenerOnNode(*probe.Host, net.Conn) error { return nil }

func lockHeld(*probe.Host, string) (bool, int, error) { return false, 0, errors.ErrUnsupported }

func readRing(int) ([]byte, error) { return nil, errors.ErrUnsupported }
