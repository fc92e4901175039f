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

// A Tool is one thing a user asks for by hand in a session: it takes arguments, writes
// text as it goes, and says at the end how it went. Like a check it is a value.
type Tool struct {
	Name  string // the word typed: "ping", "route"
	Usage string // its arguments in one line: "[-c COUNT] ADDRESS"
	Short string // what it does, in a few words
	Doc   string // what 'help NAME' prints beyond that: options, examples, what it touches
	// Check reports the user's mistake in the arguments, in one line. It touches nothing: the client calls it before
	// anything is sent.
	Check func(args []string) error
	// Parse returns what runs with these arguments, or the mistake. The client has none, see By.
	Parse func(args []string) (ToolFunc, error)
	// Reads tells that it takes what is typed while it runs.
	Reads bool
	// Endless tells that with these arguments, which Check takes, it goes on until it is
	// stopped; nil = it always ends by itself.
	Endless func(args []string) bool
}

// By is the tool with what runs it on the node.
func (t *Tool) By(parse func(args []string) (ToolFunc, error)) *Tool {
	out := *t
	out.Parse = parse
	return &out
}

// ToolFunc does what a tool's arguments say. The result's status is how it went: ok,
// fail when what was asked is bad (nothing answers), skip and unknown as with a check.
type ToolFunc func(ctx context.Context, j *Job) Result

// Job is what a running tool may touch.
type Job struct {
	Host *Host
	Out  io.Writer // what the user is to see, in whatever pieces
	In   io.Reader // what is typed meanwhile; ends with the session
	// Size is that of the user's terminal at first; Sizes tells of each change.
	Size  Size
	Sizes *Sizes
	// Hosts are the addresses of names that the client knows.
	Hosts map[string][]netip.Addr
}

// Sizes is the size that a terminal has now, which changes while a tool runs. What is typed
// after a change is read after it: a tool that takes the size before it hands on what it
// has read of In never hands on a key too early. New Sizes are made by NewSizes.
type Sizes struct {
	Changed chan struct{} // holds one when there may be a size to take
	mu      sync.Mutex
	now     Size
	fresh   bool
}

// NewSizes are those of a terminal that has not changed.
func NewSizes() *Sizes { return &Sizes{Changed: make(chan struct{}, 1)} }

// Put notes a change.
func (s *Sizes) Put(now Size) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.now, s.fresh = now, true
	select {
	case s.Changed <- struct{}{}:
	default: // the last one was not read yet
	}
}

// Take gives the size to set, where it has changed, and returns when set has.
func (s *Sizes) Take(set func(Size)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.fresh {
		set(s.now)
	}
	s.fresh = false
}

// Size is that of a terminal, in characters; zero = there is none.
type Size struct {
	Rows uint16 `json:"rows"`
	Cols uint16 `json:"cols"`
}

// Call asks for a tool.
type Call struct {
	Tool string   `json:"tool"`
	Args []string `json:"args,omitempty"`
	Size Size     `json:"size,omitzero"` // of the user's terminal, if any
	// From is the workload pod on the node, a KindLocal target, in whose network
	// namespace it is to run; nil = the node's own.
	From *Target `json:"from,omitempty"`
	// Key is what its output is sealed with, see Seal.
	Key []byte `json:"key,omitempty"`
	// Hosts are the addresses of those arguments that the client knows as names, such as
	// the names of nodes: the node may have no DNS that does.
	Hosts map[string][]netip.Addr `json:"hosts,omitempty"`
}

// spoken makes events of what a tool writes.
type spoken struct {
	emit   func(Event)
	atOnce bool // somebody types to it, and waits to see it

	mu    sync.Mutex
	kept  []byte
	timer *time.Timer // nil = nothing waits to be said
}

const (
	// piece is how many bytes of a tool's output one event carries: a control character
	// takes six in JSON, and a line never exceeds MaxLine.
	piece = 640
	// collecting is how long what is written waits for more: a table comes cell by cell.
	collecting = 50 * time.Millisecond
)

func (s *spoken) Write(b []byte) (int, error) {
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

// end says what is left.
func (s *spoken) end() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.say(s.kept)
	s.kept = nil
}

func (s *spoken) say(b []byte) {
	switch {
	case len(b) == 0:
	case utf8.Valid(b):
		s.emit(Event{Type: EventOut, Text: string(b)})
	default:
		s.emit(Event{Type: EventOut, Data: bytes.Clone(b)})
	}
}

// whole is how much of a text there is without a character at its end of which more may
// come. What is no text is whole as it is.
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

// inbox hands on what is typed to a tool that may not read yet, or ever.
type inbox struct {
	mu     sync.Mutex
	more   *sync.Cond
	kept   []byte
	closed bool
}

// mostTyped bounds what waits for a tool that does not read.
const mostTyped = 1 << 20

func newInbox() *inbox {
	i := &inbox{}
	i.more = sync.NewCond(&i.mu)
	return i
}

// put adds bytes; false when there is no more room for them.
func (i *inbox) put(b []byte) bool {
	i.mu.Lock()
	defer i.mu.Unlock()
	if len(i.kept)+len(b) > mostTyped {
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
