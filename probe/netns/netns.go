// Package netns runs checks and tools in the network namespaces of pods. Switching a thread of a running Go program to
// another namespace is a trap: a goroutine started from there dials on another thread, in another namespace. So
// Entry.Run starts the program again from a thread in the namespace, and the whole child is inside:
//
//	Run → a thread in the pod's namespace → this program again, with a session on stdin and stdout → events
//
// A View is cheaper, for code that stays on one goroutine. The package changes nothing in a namespace.
package netns

import "github.com/calico-probe/calico-probe/probe"

// Entry starts this program again inside a pod's network namespace.
type Entry struct {
	Host *probe.Host
	Args []string // arguments with which this program serves a session on stdin
}
