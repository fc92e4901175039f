// Package filelock locks a file for one process.
package filelock

import (
	"errors"
	"math"
	"os"

	"golang.org/x/sys/windows"
)

// Lock locks a file for this process until Close. It returns false if another process holds the lock. It returns true
// if the file system does not support locks, as is the case for some network file systems. It locks one byte far beyond
// the file's end, because Windows blocks reads of locked bytes.
func Lock(f *os.File) bool {
	behind := windows.Overlapped{OffsetHigh: math.MaxInt32}
	err := windows.LockFileEx(windows.Handle(f.Fd()), windows.LOCKFILE_EXCLUSIVE_LOCK|windows.LOCKFILE_FAIL_IMMEDIATELY,
		0, 1, 0, &behind)
	return !errors.Is(err, windows.ERROR_LOCK_VIOLATION)
}

// Close unlocks a file and closes it.
func Close(f *os.File) error { return f.Close() }
