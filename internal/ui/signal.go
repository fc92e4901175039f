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

// Interrupts lets a verb take Ctrl-C for itself for a while, and do a last thing where the
// program ends without it.
type Interrupts struct {
	mu    sync.Mutex
	taker func()
	last  func()
	says  string // what a signal that ends the program says; "" = that what was created is removed
}

// Stopping is what a signal says from now on, where nothing was created, until it is given back.
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

// sayStopping says what a signal comes to.
func (i *Interrupts) sayStopping(to io.Writer) {
	i.mu.Lock()
	says := i.says
	i.mu.Unlock()
	if says == "" {
		Say(to, "stopping: removing what was created (once more to stop at once)")
		return
	}
	_, _ = io.WriteString(to, "\n") // the question is still on the line
	Say(to, "%s", says)
}

// Take makes f what Ctrl-C does until back is called; then it does what it did before.
func (i *Interrupts) Take(f func()) (back func()) {
	before := i.set(f)
	return func() { i.set(before) }
}

// TakeFree makes f what Ctrl-C does, unless somebody has taken it: in a script nobody has.
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

// AtEnd makes f what is done before a signal ends the program, until what was done before
// it takes its place again.
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

// End does what is to be done before the program ends.
func (i *Interrupts) End() {
	i.mu.Lock()
	last := i.last
	i.mu.Unlock()
	if last != nil {
		last()
	}
}

// taken tells whether somebody takes Ctrl-C, who is told of it.
func (i *Interrupts) taken() bool {
	i.mu.Lock()
	taker := i.taker
	i.mu.Unlock()
	if taker == nil {
		return false
	}
	taker() // which may give it back
	return true
}

// sameStop is for how long another SIGTERM or SIGHUP belongs to the first: timeout(1) sends its own to
// the program and to its group, and no human is as quick.
const sameStop = time.Second

// UntilSignal returns a context that ends with the first Ctrl-C, SIGTERM or
// SIGHUP, so that the verb cleans up and returns; the second one ends the
// program at once. The second value is 128 + the first signal's number, or 0.
func UntilSignal(ctx context.Context, errOut io.Writer, i *Interrupts) (context.Context, func() int, func()) {
	ctx, cancel := context.WithCancel(ctx)
	var first atomic.Int64
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	signal.Ignore(syscall.SIGPIPE) // "run | head" gets an error of writing, and cleans up
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
					Say(errOut, "stopped before everything was removed; what is left ends by itself within a minute; 'calico-probe clean' lists it, and 'calico-probe clean --run ID' removes it at once")
					i.End()
					os.Exit(int(code))
				}
				began = time.Now()
				i.End() // first, so that what is said is read
				i.sayStopping(errOut)
				cancel()
			}
		}
	}()
	stop := func() { signal.Stop(signals); close(ended); cancel() }
	return ctx, func() int { return int(first.Load()) }, stop
}
