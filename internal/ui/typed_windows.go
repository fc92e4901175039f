package ui

import (
	"os"

	"golang.org/x/sys/windows"
)

// DropTyped discards unread input of a console.
func DropTyped(in any) {
	if f, ok := in.(*os.File); ok {
		_ = windows.FlushConsoleInputBuffer(windows.Handle(f.Fd())) // fails if it is not a console, which has no typed input
	}
}
