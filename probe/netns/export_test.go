//go:build e2e

package netns

// What the package's tests use: how a pod's process is found, and how a namespace is entered.
var (
	Find   = Entry.find
	Within = within
)
