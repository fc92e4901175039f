package probe

import (
	"bytes"
	"context"
	"io"
	"net/netip"
	"sync"
	"time"
	"unicode/utf8"
)

// A Tool is a command that a user types in a session. It takes arguments, writes text as it runs, and returns a
// result. Like a check it is a value.
type Tool struct {
	Name  string // the word to type: "ping", "route"
	Usage string // its arguments in one line: "[-c COUNT] ADDRESS"
	Short string // what it does, in a few words
	Doc   string // what 'help NAME' prints in addition: options, examples, what it touches
	// Check reports the user's mistake in the arguments, in one line. It touches nothing: the client calls it before
	// it sends anything.
	Check func(args []string) error
	// Parse returns the function for these arguments, or the mistake. It is nil in the client, see By.
	Parse func(args []string) (ToolFunc, error)
	// Reads reports whether it reads what the user types while it runs.
	Reads bool
	// Endless reports whether it runs until it is stopped, with these valid arguments; nil = it always ends on its
	// own.
	Endless func(args []string) bool
}

// By returns the tool with the function that runs it on the node.
func (t *Tool) By(parse func(args []string) (ToolFunc, error)) *Tool {
	out := *t
	out.Parse = parse
	return &out
}

// ToolFunc runs a tool with its arguments. The result's status is the outcome: ok, fail if the target is bad (for
// example, it does not answer), skip and unknown as with a check.
type ToolFunc func(ctx context.Context, j *Job) Result

// Job is what a running tool may use.
type Job struct {
	Host *Host
	Out  io.Writer // output for the user, in pieces of any size
	In   io.Reader // what the user types meanwhile; ends with the session
	// Size is that of the user's terminal at the start; Sizes reports each change.
	Size  Size
	Sizes *Sizes
	// Hosts are the addresses of names that the client resolved.
	Hosts map[string][]netip.Addr
}

// Sizes is the current size of a terminal, which changes while a tool runs. Input after a change is read after the
// change: a tool that takes the size before it forwards what it has read of In never forwards a key too early.
// NewSizes creates Sizes.
type Sizes struct {
	Changed chan struct{} // holds one if there may be a size to take
	mu      sync.Mutex
	now     Size
	fresh   bool
}

// NewSizes returns those of a terminal that has not changed.
func NewSizes() *Sizes { return &Sizes{Changed: make(chan struct{}, 1)} }

// Put records a change.
func (s *Sizes) Put(now Size) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.now, s.fresh = now, true
	select {
	case s.Changed <- struct{}{}:
	default: // the last one was not read yet
	}
}

// Take passes a changed size to set, and returns after set has returned.
func (s *Sizes) Take(set func(Size)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.fresh {
		set(s.now)
	}
	s.fresh = false
}

// Size is that of a terminal, in characters; zero = no terminal.
type Size struct {
	Rows uint16 `json:"rows"`
	Cols uint16 `json:"cols"`
}

// Call runs a tool.
type Call struct {
	Tool string   `json:"tool"`
	Args []string `json:"args,omitempty"`
	Size Size     `json:"size,omitzero"` // of the user's terminal, if any
	// From is the workload pod on the node, a KindLocal target, in whose network namespace the tool runs; nil = the
	// node's own.
	From *Target `json:"from,omitempty"`
	// Key seals its output, see Seal.
	Key []byte `json:"key,omitempty"`
	// Hosts are the addresses of arguments that the client can resolve, such as the names of nodes. The node may have
	// no DNS that resolves them.
	Hosts map[string][]netip.Addr `json:"hosts,omitempty"`
}

// toolOutput turns a tool's output into events.
type toolOutput struct {
	emit   func(Event)
	atOnce bool // a user types into it, and waits for the echo

	mu    sync.Mutex
	kept  []byte
	timer *time.Timer // nil = no output is waiting
}

const (
	// piece is how many bytes of a tool's output one event holds. A control character takes six bytes in JSON, and a
	// line never exceeds MaxLine.
	piece = 640
	// collecting is how long output waits for more: a table is written cell by cell.
	collecting = 50 * time.Millisecond
)

func (s *toolOutput) Write(b []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.timer != nil { // it would wait for a reader that does not read
		s.timer.Stop()
		s.timer = nil
	}
	s.kept = append(s.kept, b...)
	rest := s.kept
	for len(rest) > piece {
		n := whole(rest[:piece])
		s.say(rest[:n])
		rest = rest[n:]
	}
	if s.atOnce {
		n := whole(rest)
		s.say(rest[:n])
		rest = rest[n:]
	}
	s.kept = append(s.kept[:0], rest...)
	if !s.atOnce && len(s.kept) > 0 {
		s.timer = time.AfterFunc(collecting, func() {
			s.mu.Lock()
			defer s.mu.Unlock()
			s.timer = nil
			n := whole(s.kept)
			s.say(s.kept[:n])
			s.kept = append(s.kept[:0], s.kept[n:]...)
		})
	}
	return len(b), nil
}

// end sends the rest.
func (s *toolOutput) end() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.say(s.kept)
	s.kept = nil
}

func (s *toolOutput) say(b []byte) {
	switch {
	case len(b) == 0:
	case utf8.Valid(b):
		s.emit(Event{Type: EventOut, Text: string(b)})
	default:
		s.emit(Event{Type: EventOut, Data: bytes.Clone(b)})
	}
}

// whole returns how much of a text has no incomplete character at its end. Output that is not text counts as a whole.
func whole(b []byte) int {
	for n := len(b) - 1; n >= 0 && n > len(b)-utf8.UTFMax; n-- {
		if utf8.RuneStart(b[n]) {
			if !utf8.FullRune(b[n:]) && utf8.Valid(b[:n]) {
				return n
			}
			break
		}
	}
	return len(b)
}

// inbox forwards typed input to a tool that may not read yet, or ever.
type inbox struct {
	mu     sync.Mutex
	more   *sync.Cond
	kept   []byte
	closed bool
}

// maxTyped bounds the input that waits for a tool that does not read.
const maxTyped = 1 << 20

func newInbox() *inbox {
	i := &inbox{}
	i.more = sync.NewCond(&i.mu)
	return i
}

// put adds bytes; it returns false if there is no room for them.
func (i *inbox) put(b []byte) bool {
	i.mu.Lock()
	defer i.mu.Unlock()
	if len(i.kept)+len(b) > maxTyped {
		return false
	}
	i.kept = append(i.kept, b...)
	i.more.Broadcast()
	return true
}

func (i *inbox) close() {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.closed = true
	i.more.Broadcast()
}

func (i *inbox) Read(b []byte) (int, error) {
	i.mu.Lock()
	defer i.mu.Unlock()
	for len(i.kept) == 0 {
		if i.closed {
			return 0, io.EOF
		}
		i.more.Wait()
	}
	n := copy(b, i.kept)
	i.kept = i.kept[n:]
	return n, nil
}
