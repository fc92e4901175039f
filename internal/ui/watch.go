package ui

import (
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"
	"unicode"

	"golang.org/x/term"

	"github.com/calico-probe/calico-probe/internal/prompt"
	"github.com/calico-probe/calico-probe/probe"
)

// A Watch shows a run's progress on a terminal: bad answers, how many checks, nodes or access methods have answered,
// and what the run waits for. It is drawn below all other output until Close erases it to make room for the report.
// Lines from Say appear above it and are not erased. All methods of a nil Watch do nothing.
type Watch struct {
	mu      sync.Mutex
	to      io.Writer
	size    func() (width, height int)
	began   time.Time
	waits   string // what the run waits for
	probed  bool   // a probe has answered
	bad     []string
	unit    string   // the kind of pending items: checks, nodes
	pending []string // without an answer
	total   int
	drawn   int           // lines on the screen
	pause   time.Duration // minimum time between two draws, because a node may answer faster than a terminal draws
	last    time.Time     // time of the last draw
	draws   int           // number of draws
	count   int           // number of bad answers; only the last answers are kept
	ended   chan struct{}
}

// watching is the Watch on the terminal, above which Say prints.
var watching atomic.Pointer[Watch]

// If w is a terminal that can erase lines, Watching shows a Watch until Close. Otherwise it returns nil. unit names the
// pending items, such as "checks".
func Watching(w io.Writer, unit string, pending []string) *Watch {
	f, ok := prompt.Bare(w).(*os.File)
	if !ok || !IsTerminal(w) || os.Getenv("TERM") == "dumb" {
		return nil
	}
	out := newWatch(f, unit, pending, func() (int, int) {
		width, height, err := term.GetSize(int(f.Fd()))
		if err != nil {
			return 0, 0
		}
		return width, height
	})
	out.pause = drawPause
	watching.Store(out)
	probe.Detach(func() error { out.tick(time.Second); return nil }, func(error) { out.Close() })
	return out
}

func newWatch(to io.Writer, unit string, pending []string, size func() (int, int)) *Watch {
	return &Watch{to: to, size: size, began: time.Now(), unit: unit, pending: slices.Clone(pending),
		total: len(pending), ended: make(chan struct{})}
}

// Expect sets new pending items. The run no longer waits for what it waited for before.
func (w *Watch) Expect(pending []string) {
	if w != nil {
		w.change(func() { w.waits, w.pending, w.total = "", slices.Clone(pending), len(pending) })
	}
}

// Done marks a pending item as answered. bad is a line about the item's fault, which is not erased from the screen; ""
// = none.
func (w *Watch) Done(name, bad string) {
	if w == nil {
		return
	}
	w.change(func() {
		w.pending = slices.DeleteFunc(w.pending, func(n string) bool { return n == name })
		if bad != "" {
			w.addBad(bad)
		}
	})
}

// tick draws once per interval, because the Watch shows the elapsed time.
func (w *Watch) tick(every time.Duration) {
	ticker := time.NewTicker(every)
	defer ticker.Stop()
	for {
		select {
		case <-w.ended:
			return
		case <-ticker.C:
			w.change(func() {})
		}
	}
}

// viaAPI is the access method without a probe to wait for.
const viaAPI = "api"

// Event handles an event of a run over one node. It shows only answers about the node itself. The first answer of a
// probe ends the wait for the probe.
func (w *Watch) Event(ev probe.Event, node string) {
	if w == nil || ev.Type != probe.EventResult || ev.Node != node {
		return
	}
	r := *ev.Result
	w.change(func() {
		if ev.Method != viaAPI && (!w.probed || strings.HasPrefix(w.waits, ev.Method+": ")) {
			w.waits, w.probed = "", true
		}
		w.pending = slices.DeleteFunc(w.pending, func(id string) bool { return id == r.Check })
		if r.Status == probe.Fail || r.Status == probe.Warn || r.Status == probe.Unknown {
			name := strings.TrimSpace(r.Check + " " + r.Target)
			w.addBad(fmt.Sprintf("%-8s %s: %s", r.Status, name, r.Saw))
		}
	})
}

// drawPause is the minimum time between two draws after the first freeDraws draws. A single-node run has a few dozen
// draws.
const (
	drawPause = 100 * time.Millisecond
	freeDraws = 100
)

// maxBad is the maximum number of lines to keep, which is more than a terminal shows.
const maxBad = 200

func (w *Watch) addBad(line string) {
	w.bad = append(w.bad, narrow(line))
	w.bad = w.bad[max(0, len(w.bad)-maxBad):]
	w.count++
}

// change applies f. It redraws immediately, or leaves that to the next tick.
func (w *Watch) change(f func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	select {
	case <-w.ended:
		return
	default:
	}
	f()
	if w.draws++; w.draws <= freeDraws || time.Since(w.last) >= w.pause {
		w.draw()
	}
}

// above prints a permanent line above the Watch.
func (w *Watch) above(line string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.erase()
	_, _ = fmt.Fprintln(w.to, line)
	select {
	case <-w.ended:
	default:
		w.draw()
	}
}

// narrow makes each character of a line one column wide. A node's text may contain wide characters, and a wrapped line
// cannot be erased.
func narrow(text string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r == '\t':
			return ' '
		case r > unicode.MaxLatin1 && r != '…', !unicode.IsPrint(r):
			return '?'
		}
		return r
	}, probe.Line(text))
}

// room is the number of terminal lines to leave free for the output above.
const room = 3

func (w *Watch) draw() {
	width, height := w.size()
	if width < 20 || height <= room+1 {
		return
	}
	w.erase()
	w.last = time.Now()
	lines := w.bad[max(0, len(w.bad)-(height-room-1)):]
	lines = append(slices.Clone(lines), w.progress())
	for _, line := range lines {
		_, _ = fmt.Fprintln(w.to, Cut(line, width-1))
	}
	w.drawn = len(lines)
}

// maxPending is the maximum number of pending items to name.
const maxPending = 3

// progress describes the run's progress. It shows what the run waits for before the pending items, because the pending
// items also wait for that.
func (w *Watch) progress() string {
	text := time.Since(w.began).Round(time.Second).String()
	if w.total > 0 { // otherwise the expected items are not yet known
		text = fmt.Sprintf("%d of %d %s, %s", w.total-len(w.pending), w.total, w.unit, text)
	}
	if n := w.count; n > 0 {
		text += fmt.Sprintf(", %d bad", n)
	}
	if w.waits != "" {
		text += "; " + w.waits
	}
	if n := len(w.pending); n > 0 {
		text += "; waiting for " + narrow(strings.Join(w.pending[:min(n, maxPending)], ", "))
		if n > maxPending {
			text += fmt.Sprintf(" and %d more", n-maxPending)
		}
	}
	return text
}

// erase removes the Watch from the screen.
func (w *Watch) erase() {
	if w.drawn > 0 {
		_, _ = fmt.Fprintf(w.to, "\r\x1b[%dA\x1b[J", w.drawn)
		w.drawn = 0
	}
}

// Close erases the Watch. The report has the bad answers.
func (w *Watch) Close() {
	if w == nil {
		return
	}
	w.mu.Lock()
	select {
	case <-w.ended:
		w.mu.Unlock()
		return
	default:
	}
	close(w.ended)
	w.erase()
	w.mu.Unlock()
	watching.CompareAndSwap(w, nil)
}

// Progress shows a text to a person who waits. If there is a Watch, the Watch shows the text as what the run waits for.
// Otherwise the text is printed as a line.
func Progress(to io.Writer, format string, args ...any) {
	w := watching.Load()
	if w == nil {
		Say(to, format, args...)
		return
	}
	text := probe.OneLine(fmt.Sprintf(format, args...))
	w.change(func() { w.waits = narrow(text) })
}
