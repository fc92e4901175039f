//go:build !linux

package checks

import (
	"errors"
	"os"
)

func flockExclusively(*os.File) error { return errors.ErrUnsupported }
