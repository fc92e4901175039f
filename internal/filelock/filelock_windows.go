// Package filelock takes a file for one process alone.
package filelock

import (
	"errors"
	"math"
	"os"

	"golang.org/x/sys/windows"
)

// Lock takes a file for this process alone until Close; false = another process has it.
// Where files cannot be locked, as on some network file systems, it counts as taken. Locked
// is a byte far behind the file's end, because nobody can read what is locked.
func Lock(f *os.File) bool {
	behind := windows.Overlapped{OffsetHigh: math.MaxInt32}
	err := windows.LockFileEx(windows.Handle(f.Fd()), windows.LOCKFILE_EXCLUSIVE_LOCK|windows.LOCKFILE_FAIL_IMMEDIATELY,
		0, 1, 0, &behind)
	return !errors.Is(err, windows.ERROR_LOCK_VIOLATION)
}

// Close gives a file free and closes it.
func Close(f *os.File) error { return f.Close() }
