package probe

import (
	"fmt"
	"path"
	"runtime"
	"runtime/debug"
	"strings"
	"sync"
)

// A panic in this program costs only one answer: one check, one rule, one node of a fleet, one job or one call.
// Concurrent code uses Workers, Async or Detach, because a panic on a plain goroutine ends the whole program. If a
// caller knows which answer is lost, it uses Recovered.

// Crash is a panic that Recovered caught. Its text may quote foreign data, so it is one line of limited length.
type Crash struct {
	Text  string // the panic's text, and where the panic happened
	Stack string
}

// maxCrash is the maximum number of bytes of panic output to keep. Errors of the Go runtime are shorter.
const maxCrash = 160

func (c *Crash) Error() string { return "crashed: " + c.Text }

// Recovered calls f. It returns the error that f returns, or a *Crash if f panics.
func Recovered(f func() error) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = crashOf(p)
		}
	}()
	return f()
}

// crashOf describes a panic. It runs in the deferred function that recovered it.
func crashOf(p any) *Crash {
	if c, is := p.(*Crash); is { // from Workers.Wait
		return c
	}
	text := Cut(OneLine(fmt.Sprint(p)), maxCrash)
	if at := panicked(); at != "" {
		text += " (" + at + ")"
	}
	return &Crash{Text: text, Stack: string(debug.Stack())}
}

// panicked returns the file and line of the panic, for example "internal/diagnose/explain.go:44".
func panicked() string {
	callers := make([]uintptr, 32)
	frames := runtime.CallersFrames(callers[:runtime.Callers(1, callers)])
	for below := false; ; {
		f, more := frames.Next()
		if below && !strings.HasPrefix(f.Function, "runtime.") {
			return fmt.Sprintf("%s/%s:%d", path.Base(path.Dir(f.File)), path.Base(f.File), f.Line)
		}
		below = below || f.Function == "runtime.gopanic"
		if !more {
			return ""
		}
	}
}

// Workers runs functions concurrently, like sync.WaitGroup. If a function panics, the program continues. Wait repeats
// the panic on the goroutine that waits, so that the caller can recover.
type Workers struct {
	all   sync.WaitGroup
	mu    sync.Mutex
	crash error
}

// Go calls f on its own goroutine.
func (g *Workers) Go(f func()) {
	g.all.Go(func() {
		err := Recovered(func() error { f(); return nil })
		if err == nil {
			return
		}
		g.mu.Lock()
		defer g.mu.Unlock()
		g.crash = err
	})
}

// Wait waits for every function to return. If a function panicked, Wait panics with a *Crash.
func (g *Workers) Wait() {
	g.all.Wait()
	if g.crash != nil {
		panic(g.crash)
	}
}

// Async calls f on its own goroutine. The channel delivers the result of Recovered once.
func Async(f func() error) <-chan error {
	ended := make(chan error, 1)
	go func() { ended <- Recovered(f) }()
	return ended
}

// Detach calls f on its own goroutine, for a caller that does not wait. If Recovered returns an error, Detach calls
// failed with that error.
func Detach(f func() error, failed func(error)) {
	go func() {
		err := Recovered(f)
		if err == nil {
			return
		}
		_ = Recovered(func() error { failed(err); return nil }) // nothing can report a second crash
	}()
}
