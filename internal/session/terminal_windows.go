package session

import (
	"cmp"
	"os"
	"time"

	"golang.org/x/sys/windows"
)

// resized tells that the console's size may have changed.
type resized = time.Time

// resizes ticks: the console tells of its size among its keys only, which are read as
// text.
func resizes() (changes <-chan resized, stop func()) {
	t := time.NewTicker(time.Second)
	return t.C, t.Stop
}

// terminalKind is what programs on the node are to take the console for.
func terminalKind() string { return cmp.Or(os.Getenv("TERM"), "xterm-256color") }

// steerable makes the console understand what moves a terminal's cursor.
func steerable(out *os.File) (back func()) {
	h := windows.Handle(out.Fd())
	var mode uint32
	if windows.GetConsoleMode(h, &mode) != nil ||
		windows.SetConsoleMode(h, mode|windows.ENABLE_VIRTUAL_TERMINAL_PROCESSING) != nil {
		return func() {}
	}
	return func() { _ = windows.SetConsoleMode(h, mode) }
}
