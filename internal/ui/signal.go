package ui

import (
	"context"
	"io"
	"os"
	"os/signal"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

// With Interrupts, a verb can temporarily handle Ctrl-C, and can run a last function if a signal ends the program.
type Interrupts struct {
	mu    sync.Mutex
	taker func()
	last  func()
	says  string // the message of a signal that ends the program; "" = that created objects are removed
}

// Stopping sets the message for a signal, until the returned function is called. It is for a verb that has not created
// anything.
func (i *Interrupts) Stopping(says string) (back func()) {
	set := func(says string) (before string) {
		i.mu.Lock()
		defer i.mu.Unlock()
		before, i.says = i.says, says
		return before
	}
	before := set(says)
	return func() { set(before) }
}

// sayStopping prints the message for a signal.
func (i *Interrupts) sayStopping(to io.Writer) {
	i.mu.Lock()
	says := i.says
	i.mu.Unlock()
	if says == "" {
		Say(to, "stopping: removing all created objects (repeat to exit immediately)")
		return
	}
	_, _ = io.WriteString(to, "\n") // the question is still on the line
	Say(to, "%s", says)
}

// After a call of Take, Ctrl-C calls f until back is called. back restores the previous handler.
func (i *Interrupts) Take(f func()) (back func()) {
	before := i.set(f)
	return func() { i.set(before) }
}

// After a call of TakeFree, Ctrl-C calls f, unless there was already a handler. In a script there is none.
func (i *Interrupts) TakeFree(f func()) (back func()) {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.taker != nil {
		return func() {}
	}
	i.taker = f
	return func() { i.set(nil) }
}

func (i *Interrupts) set(f func()) (before func()) {
	i.mu.Lock()
	defer i.mu.Unlock()
	before, i.taker = i.taker, f
	return before
}

// AtEnd registers f to run before a signal ends the program. The returned function restores the previous
// function.
func (i *Interrupts) AtEnd(f func()) (back func()) {
	set := func(f func()) (before func()) {
		i.mu.Lock()
		defer i.mu.Unlock()
		before, i.last = i.last, f
		return before
	}
	before := set(f)
	return func() { set(before) }
}

// End runs the function that AtEnd registered.
func (i *Interrupts) End() {
	i.mu.Lock()
	last := i.last
	i.mu.Unlock()
	if last != nil {
		last()
	}
}

// taken calls the handler for Ctrl-C, and reports whether there is one.
func (i *Interrupts) taken() bool {
	i.mu.Lock()
	taker := i.taker
	i.mu.Unlock()
	if taker == nil {
		return false
	}
	taker() // the handler may restore the previous one
	return true
}

// sameStop is the time in which a second SIGTERM or SIGHUP counts as part of the first: timeout(1) signals both the
// program and its process group, faster than any human could.
const sameStop = time.Second

// UntilSignal returns a context that ends with the first Ctrl-C, SIGTERM or
// SIGHUP, so that the verb cleans up and returns. A second signal ends the
// program immediately. The second value is 128 + the first signal's number, or 0.
func UntilSignal(ctx context.Context, errOut io.Writer, i *Interrupts) (context.Context, func() int, func()) {
	ctx, cancel := context.WithCancel(ctx)
	var first atomic.Int64
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	signal.Ignore(syscall.SIGPIPE) // "run | head" gets a write error, and cleans up
	ended := make(chan struct{})
	go func() {
		var began time.Time
		for {
			select {
			case <-ended:
				return
			case s := <-signals:
				if s == os.Interrupt && i.taken() {
					continue
				}
				if s != os.Interrupt && !began.IsZero() && time.Since(began) < sameStop {
					continue
				}
				code := 128 + int64(s.(syscall.Signal))
				if !first.CompareAndSwap(0, code) {
					Say(errOut, "stopped before all objects were removed; the remaining objects stop automatically within a minute; 'calico-probe clean' lists them, and 'calico-probe clean --run ID' removes them now")
					i.End()
					os.Exit(int(code))
				}
				began = time.Now()
				i.End() // do this first, otherwise the message might be unreadable
				i.sayStopping(errOut)
				cancel()
			}
		}
	}()
	stop := func() { signal.Stop(signals); close(ended); cancel() }
	return ctx, func() int { return int(first.Load()) }, stop
}
