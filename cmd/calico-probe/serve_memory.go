package main

import (
	"os"
	"runtime/debug"
)

// serveHeap is from where on serve collects garbage rather than take more memory, in bytes: what nodes may send it at
// once takes 64 MiB, and the program's own pages, some 70 MiB, come beside it. On a busy machine the collector comes
// late, and let it grow to twice as much. Where nearly all is in use it takes half of the CPU at most, and lets it
// grow.
const serveHeap = 96 << 20

// collectEarly holds serve to serveHeap, unless somebody has set GOMEMLIMIT, as its manifest does.
func collectEarly() {
	if os.Getenv("GOMEMLIMIT") == "" {
		debug.SetMemoryLimit(serveHeap)
	}
}
