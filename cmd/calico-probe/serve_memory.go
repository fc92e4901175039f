package main

import (
	"os"
	"runtime/debug"
)

// serveHeap is the soft memory limit of serve in bytes: near it, Go collects garbage instead of growing. Nodes may
// send 64 MiB at once. The program's own pages, some 70 MiB, are not included. Without a limit, the collector ran
// late on a busy machine, and the heap grew to twice that. If nearly all of it is in use, the collector takes at most
// half of the CPU, and lets the heap grow.
const serveHeap = 96 << 20

// collectEarly sets serveHeap as the limit, unless GOMEMLIMIT is set, as in the manifest of serve.
func collectEarly() {
	if os.Getenv("GOMEMLIMIT") == "" {
		debug.SetMemoryLimit(serveHeap)
	}
}
