package main

import (
	"os"
	"runtime/debug"
)

// serveHeap is serve's soft memory limit in bytes. Near this limit, Go collects garbage instead of growing the heap.
// Nodes may send 64 MiB at once. The limit excludes the program's own pages, about 70 MiB. Without a limit, the
// collector ran late on a busy machine, and the heap grew to twice this size. If nearly all of the heap is live, the
// collector uses at most half of the CPU and lets the heap grow.
const serveHeap = 96 << 20

// collectEarly sets serveHeap as the limit, unless GOMEMLIMIT is set, as in serve's manifest.
func collectEarly() {
	if os.Getenv("GOMEMLIMIT") == "" {
		debug.SetMemoryLimit(serveHeap)
	}
}
