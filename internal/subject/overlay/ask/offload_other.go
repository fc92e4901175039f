//go:build !linux

package ask

import "errors"

func offloadsChecksums(string) (bool, error) { return false, errors.ErrUnsupported }
