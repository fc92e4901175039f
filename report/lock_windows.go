package report

import (
	"errors"
	"math"
	"os"

	"golang.org/x/sys/windows"
)

// Lock takes a file for this process alone, until it is closed; false = another one has it.
// Where files cannot be locked, as on some network's, it is taken. What is locked is far
// behind its end, since nobody can read what is locked.
func Lock(f *os.File) bool {
	behind := windows.Overlapped{OffsetHigh: math.MaxInt32}
	err := windows.LockFileEx(windows.Handle(f.Fd()), windows.LOCKFILE_EXCLUSIVE_LOCK|windows.LOCKFILE_FAIL_IMMEDIATELY, 0, 1, 0, &behind)
	return !errors.Is(err, windows.ERROR_LOCK_VIOLATION)
}
