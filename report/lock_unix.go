//go:build !windows

package report

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

// Lock takes a file for this process alone, until it is closed; false = another one has it.
// Where files cannot be locked, as on some network's, it is taken.
func Lock(f *os.File) bool {
	return !errors.Is(unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB), unix.EWOULDBLOCK)
}
