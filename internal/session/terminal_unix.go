//go:build !windows

package session

import (
	"cmp"
	"os"
)

// terminalKind is what programs on the node are to take the terminal for.
func terminalKind() string { return cmp.Or(os.Getenv("TERM"), "dumb") }

// steerable makes a terminal understand what moves its cursor; here every one does.
func steerable(*os.File) (back func()) { return func() {} }
