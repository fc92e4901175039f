// Package netns runs checks and tools in the network namespaces of pods. It is not safe to switch a thread of a
// running Go program to another namespace. A goroutine that starts from there dials on another thread, and thus in
// another namespace. Entry.Run therefore starts the program again from a thread in the namespace, so that the whole
// child process is inside:
//
//	Run → a thread in the pod's namespace → this program again, with a session on stdin and stdout → events
//
// A View is cheaper, but only for code that does not leave its goroutine. The package does not
// change anything in a namespace.
package netns

import "github.com/calico-probe/calico-probe/probe"

// Entry starts this program again inside a pod's network namespace.
type Entry struct {
	Host *probe.Host
	Args []string // arguments with which this program serves a session on stdin
}
