package main

import (
	"os"
	"runtime/debug"
)

// serveHeap is the soft memory limit of serve in bytes: near it, Go collects garbage instead of growing. Nodes may send
// 64 MiB at once. The limit excludes the program's own pages, some 70 MiB. Without a limit, the collector ran late on a
// busy machine, and the heap grew to twice the limit. If nearly all of the heap is live, the collector uses at most
// half of the CPU and lets the heap grow.
const serveHeap = 96 << 20

// collectEarly sets serveHeap as the limit, unless GOMEMLIMIT is set, as in serve's manifest.
func collectEarly() {
	if os.Getenv("GOMEMLIMIT") == "" {
		debug.SetMemoryLimit(serveHeap)
	}
}
