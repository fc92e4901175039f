package session

import (
	"cmp"
	"os"

	"golang.org/x/sys/windows"
)

// terminalKind returns the terminal type for programs on the node.
func terminalKind() string { return cmp.Or(os.Getenv("TERM"), "xterm-256color") }

// steerable enables the console's escape sequences.
func steerable(out *os.File) (back func()) {
	h := windows.Handle(out.Fd())
	var mode uint32
	if windows.GetConsoleMode(h, &mode) != nil ||
		windows.SetConsoleMode(h, mode|windows.ENABLE_VIRTUAL_TERMINAL_PROCESSING) != nil {
		return func() {}
	}
	return func() { _ = windows.SetConsoleMode(h, mode) }
}
