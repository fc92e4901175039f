//go:build !windows

package session

import (
	"cmp"
	"os"
)

// terminalKind returns the terminal type for programs on the node.
func terminalKind() string { return cmp.Or(os.Getenv("TERM"), "dumb") }

// steerable enables escape sequences. Unix terminals always support them.
func steerable(*os.File) (back func()) { return func() {} }
