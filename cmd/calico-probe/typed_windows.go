package main

import (
	"os"

	"golang.org/x/sys/windows"
)

// dropTyped forgets what was typed on a console and not read yet.
func dropTyped(in any) {
	if f, ok := in.(*os.File); ok {
		_ = windows.FlushConsoleInputBuffer(windows.Handle(f.Fd())) // no console: nothing is typed there
	}
}
