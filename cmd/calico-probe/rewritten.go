package main

import (
	"fmt"
	"io"
	"os"
	"sync"
)

// rewritten is what a person reads on, with a line that takes the place of the one before
// it, as long as nothing else was written in between. It ends in a new line, so that what
// others write to the same terminal begins on one of its own.
type rewritten struct {
	to   io.Writer
	mu   sync.Mutex
	last bool // the line is the last that was written
}

func (r *rewritten) Unwrap() io.Writer { return r.to }

func (r *rewritten) Write(p []byte) (int, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.last = false
	return r.to.Write(p)
}

// line says a text, on a terminal that can in the place of the line before.
func (r *rewritten) line(text string) {
	width := widthOf(r.to)
	if width == 0 || os.Getenv("TERM") == "dumb" {
		say(r, "%s", text)
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.last {
		_, _ = fmt.Fprint(r.to, "\x1b[A\r\x1b[K")
	}
	_, _ = fmt.Fprintln(r.to, cut("calico-probe: "+oneLine(text), width-1)) // one that is broken cannot be gone back to
	r.last = true
}
