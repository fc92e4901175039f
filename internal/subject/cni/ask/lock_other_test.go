//go:build !linux

package ask

import (
	"errors"
	"os"
)

func flockExclusively(*os.File) error { return errors.ErrUnsupported }
