//go:build !windows

// Package filelock locks a file for one process.
package filelock

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

// Lock locks a file for this process until Close; false = another process holds the lock. If the file system has no
// locks, as some network file systems, it returns true.
func Lock(f *os.File) bool {
	return !errors.Is(unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB), unix.EWOULDBLOCK)
}

// Close unlocks a file and closes it. Closing alone does not suffice: a forked child has the file open until it
// executes its program.
func Close(f *os.File) error {
	_ = unix.Flock(int(f.Fd()), unix.LOCK_UN) // fails harmlessly if the file is not locked
	return f.Close()
}
