//go:build !linux

package ask

import (
	"errors"
	"os"

	"github.com/calico-probe/calico-probe/internal/subject/host"
)

func usageAt(*os.File) (host.Disk, error) { return host.Disk{}, errors.ErrUnsupported }

func isSynchronised() (bool, error) { return false, errors.ErrUnsupported }

func readRing(int) ([]byte, error) { return nil, errors.ErrUnsupported }
