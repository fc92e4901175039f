//go:build !windows

// Package filelock locks a file for one process.
package filelock

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

// Lock locks a file for this process until Close. It returns false if another process holds the lock. It returns true
// if the file system does not support locks, as is the case for some network file systems.
func Lock(f *os.File) bool {
	return !errors.Is(unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB), unix.EWOULDBLOCK)
}

// Close unlocks a file and closes it. Closing alone is not enough: a forked child has the file open until it executes
// its program.
func Close(f *os.File) error {
	_ = unix.Flock(int(f.Fd()), unix.LOCK_UN) // fails harmlessly if the file is not locked
	return f.Close()
}
