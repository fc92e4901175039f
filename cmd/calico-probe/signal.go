package main

import (
	"context"
	"io"
	"os"
	"os/signal"
	"sync/atomic"
	"syscall"
)

// untilSignal returns a context that ends with the first Ctrl-C, SIGTERM or
// SIGHUP, so that the verb cleans up and returns; the second one ends the
// program at once. The second value is 128 + the first signal's number, or 0.
func untilSignal(ctx context.Context, errOut io.Writer) (context.Context, func() int, func()) {
	ctx, cancel := context.WithCancel(ctx)
	var first atomic.Int64
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	signal.Ignore(syscall.SIGPIPE) // "run | head" gets an error of writing, and cleans up
	ended := make(chan struct{})
	go func() {
		for {
			select {
			case <-ended:
				return
			case s := <-signals:
				code := 128 + int64(s.(syscall.Signal))
				if !first.CompareAndSwap(0, code) {
					say(errOut, "stopped before everything was removed; what is left ends by itself within a minute, 'calico-probe clean' removes it at once")
					os.Exit(int(code))
				}
				say(errOut, "stopping: removing what was created (once more to stop at once)")
				cancel()
			}
		}
	}()
	stop := func() { signal.Stop(signals); close(ended); cancel() }
	return ctx, func() int { return int(first.Load()) }, stop
}
