//go:build !windows

// Package filelock takes a file for one process alone.
package filelock

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

// Lock takes a file for this process alone until Close; false = another process has it.
// Where files cannot be locked, as on some network file systems, it counts as taken.
func Lock(f *os.File) bool {
	return !errors.Is(unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB), unix.EWOULDBLOCK)
}

// Close gives a file free and closes it. To close it alone would not do: a child that is being
// started has it open until its own program runs.
func Close(f *os.File) error {
	_ = unix.Flock(int(f.Fd()), unix.LOCK_UN) // where it was never locked there is nothing to give free
	return f.Close()
}
