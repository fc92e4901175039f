//go:build !windows

package session

import (
	"cmp"
	"os"
	"os/signal"
	"syscall"
)

// resized tells that the terminal's size may have changed.
type resized = os.Signal

// resizes tells of each change of the terminal's size.
func resizes() (changes <-chan resized, stop func()) {
	c := make(chan os.Signal, 1)
	signal.Notify(c, syscall.SIGWINCH)
	return c, func() { signal.Stop(c) }
}

// terminalKind is what programs on the node are to take the terminal for.
func terminalKind() string { return cmp.Or(os.Getenv("TERM"), "dumb") }

// steerable makes a terminal understand what moves its cursor; here every one does.
func steerable(*os.File) (back func()) { return func() {} }
