//go:build e2e

package netns

// What the tests of the package look at: how a pod's process is found, and how a namespace is entered.
var (
	Find   = Entry.find
	Within = within
)
