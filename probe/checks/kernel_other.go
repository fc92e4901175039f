//go:build !linux

package checks

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"

	"github.com/calico-probe/calico-probe/probe"
)

func lookup(netip.Addr) (hop, error) {
	return hop{}, fmt.Errorf("asking the kernel for routes: %w", errors.ErrUnsupported)
}

func listening(uint16) ([]string, error) {
	return nil, fmt.Errorf("asking the kernel for sockets: %w", errors.ErrUnsupported)
}

func connected(uint16) (map[netip.Addr]bool, error) { return nil, errors.ErrUnsupported }

func tcpByInode(map[uint32]bool) (map[uint32]string, error) { return nil, errors.ErrUnsupported }

// Sockets needs Linux.
func Sockets(bool, func(string, netip.AddrPort, netip.AddrPort, uint32)) error {
	return fmt.Errorf("asking the kernel for sockets: %w", errors.ErrUnsupported)
}

func usage(*os.File) (disk, error) { return disk{}, errors.ErrUnsupported }

func synchronised() (bool, error) { return false, errors.ErrUnsupported }

func neighbours(int) ([]neighbour, error) { return nil, errors.ErrUnsupported }

func listenerOnNode(*probe.Host, net.Conn) error { return nil }

func lockHeld(*probe.Host, string) (bool, int, error) { return false, 0, errors.ErrUnsupported }
