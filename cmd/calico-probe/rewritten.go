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

// rewritten is a terminal with a status text. A new status text replaces the previous status text unless other output
// followed it. The text ends with a newline, so output from other programs begins on a new line.
type rewritten struct {
	to   io.Writer
	mu   sync.Mutex
	rows int // rows of the status text; 0 = other output followed it
}

// maxRows keeps a status text from filling a small terminal.
const maxRows = 3

func (r *rewritten) Unwrap() io.Writer { return r.to }

func (r *rewritten) Write(p []byte) (int, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.rows = 0
	return r.to.Write(p)
}

// say prints a status text. On a capable terminal it replaces the previous one.
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
	line := ui.Cut(text, maxRows*width)
	_, _ = fmt.Fprintln(r.to, line)
	r.rows = (utf8.RuneCountInString(line) + width - 1) / width
}

// leave leaves the status text on the screen, because the next output may reach the same terminal through stdout.
func (r *rewritten) leave() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.rows = 0
}
