//go:build !linux

package checks

import (
	"errors"
	"fmt"

	"github.com/calico-probe/calico-probe/probe"
)

func devices() ([]device, error) {
	return nil, fmt.Errorf("asking the kernel for interfaces: %w", errors.ErrUnsupported)
}

func vteps(int, int) (forwarding, error) { return forwarding{}, errors.ErrUnsupported }

func nftChains() ([]chain, error) { return nil, errors.ErrUnsupported }

func nftSet(int, string, string) ([]span, error) { return nil, errors.ErrUnsupported }

func ipSet(string) ([]span, error) { return nil, errors.ErrUnsupported }

func legacyChains(*probe.Host, string) ([]chain, []string, error) {
	return nil, nil, errors.ErrUnsupported
}
