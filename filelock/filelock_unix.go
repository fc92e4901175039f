//go:build !windows

// Package filelock takes a file for one process alone.
package filelock

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

// Lock takes a file for this process alone until it is closed; false = another process has it.
// Where files cannot be locked, as on some network file systems, it counts as taken.
func Lock(f *os.File) bool {
	return !errors.Is(unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB), unix.EWOULDBLOCK)
}
