package ui

import (
	"os"

	"golang.org/x/sys/unix"
)

// DropTyped discards unread input of a terminal.
func DropTyped(in any) {
	if f, ok := in.(*os.File); ok {
		_ = unix.IoctlSetInt(int(f.Fd()), unix.TCFLSH, unix.TCIFLUSH) // not a terminal: no typed input
	}
}
