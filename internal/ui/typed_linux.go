package ui

import (
	"os"

	"golang.org/x/sys/unix"
)

// DropTyped forgets what was typed on a terminal and not read yet.
func DropTyped(in any) {
	if f, ok := in.(*os.File); ok {
		_ = unix.IoctlSetInt(int(f.Fd()), unix.TCFLSH, unix.TCIFLUSH) // no terminal: nothing is typed there
	}
}
