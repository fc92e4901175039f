// Package netns runs checks and tools in the network namespaces of pods. Switching a thread of a running Go program
// is a trap: a goroutine started from there dials on another thread, in another namespace. So Entry.Run starts the
// program again from a thread that has entered the namespace, and all of the child is inside. A View is the light
// form for code that stays on one goroutine.
package netns

import "github.com/calico-probe/calico-probe/probe"

// Entry starts this program again inside a pod's network namespace.
type Entry struct {
	Host *probe.Host
	Args []string // with which this program answers a session on stdin
}
