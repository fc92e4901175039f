// Package netns asks out of the network namespaces of pods. Switching a thread of
// a running Go program is a trap: what dials on another goroutine dials on another
// thread, in another namespace. So the program is started again from a thread that
// has entered, and all of the child is inside.
package netns

import "github.com/calico-probe/calico-probe/probe"

// Entry starts this program again inside a pod's network namespace.
type Entry struct {
	Host *probe.Host
	Args []string // with which this program answers a session on stdin
}
