package main

import (
	"fmt"
	"io"
	"os"
	"sync"
	"unicode/utf8"

	"github.com/calico-probe/calico-probe/internal/prompt"
	"github.com/calico-probe/calico-probe/internal/ui"
	"github.com/calico-probe/calico-probe/probe"
)

// rewritten is what a person reads on, with a text that takes the place of the one before
// it, as long as nothing else was written to it in between. It ends in a new line, so that
// what others write to the same terminal begins on one of its own.
type rewritten struct {
	to   io.Writer
	mu   sync.Mutex
	rows int // of the text, where it is the last that was written
}

// mostRows keeps such a text from filling a small terminal.
const mostRows = 3

func (r *rewritten) Unwrap() io.Writer { return r.to }

func (r *rewritten) Write(p []byte) (int, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.rows = 0
	return r.to.Write(p)
}

// say says a text, on a terminal that can in the place of the one before.
func (r *rewritten) say(text string) {
	width := ui.Width(r.to)
	if width == 0 || os.Getenv("TERM") == "dumb" {
		ui.Say(r, "%s", text)
		return
	}
	r.put("calico-probe: "+probe.OneLine(text), width)
}

func (r *rewritten) put(text string, width int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.rows > 0 {
		_, _ = fmt.Fprintf(prompt.Bare(r.to), "\x1b[%dA\r\x1b[J", r.rows)
	}
	line := ui.Cut(text, mostRows*width)
	_, _ = fmt.Fprintln(r.to, line)
	r.rows = (utf8.RuneCountInString(line) + width - 1) / width
}

// leave lets the text stand: what comes next may be on stdout, which is the same terminal
// and not seen here.
func (r *rewritten) leave() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.rows = 0
}
