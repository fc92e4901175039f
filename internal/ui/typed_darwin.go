package ui

import (
	"os"

	"golang.org/x/sys/unix"
)

// DropTyped discards unread input of a terminal.
func DropTyped(in any) {
	const reading = 1 // FREAD of <sys/fcntl.h>
	if f, ok := in.(*os.File); ok {
		_ = unix.IoctlSetPointerInt(int(f.Fd()), unix.TIOCFLUSH, reading) // not a terminal: no typed input
	}
}
