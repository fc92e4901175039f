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

// A Tool is a command that a user types in a session. It takes arguments, writes text while it runs, and
// returns a result. Like a Check, it is a plain value.
type Tool struct {
	Name  string // the command to type: "ping", "route"
	Usage string // its arguments on one line: "[-c COUNT] ADDRESS"
	Short string // short description
	Doc   string // more text for 'help NAME': options, examples and what it touches
	// Check validates the arguments. It describes the user's mistake in one line. It has no side effects: the client
	// calls it before it sends the call.
	Check func(args []string) error
	// Parse returns a function that runs the tool with these arguments, or the user's mistake.
	// Parse is nil in the client, see By.
	Parse func(args []string) (ToolFunc, error)
	// Reads reports whether the tool reads the user's input while it runs.
	Reads bool
	// Endless reports whether the tool runs until it is stopped if it gets these valid arguments. If Endless is nil,
	// the tool always ends on its own.
	Endless func(args []string) bool
}

// By returns the tool together with the function that runs it on the node.
func (t *Tool) By(parse func(args []string) (ToolFunc, error)) *Tool {
	out := *t
	out.Parse = parse
	return &out
}

// ToolFunc runs a tool with its arguments. The result's status is the outcome. It is ok, fail if the target is
// bad (for example, does not answer), or skip and unknown as for a check.
type ToolFunc func(ctx context.Context, j *Job) Result

// Job holds everything that a running tool may use.
type Job struct {
	Host *Host
	Out  io.Writer // output for the user, in pieces of any size
	In   io.Reader // what the user types; closed when the session ends
	// Size is the initial size of the user's terminal. Sizes reports each change.
	Size  Size
	Sizes *Sizes
	// Hosts maps names to the addresses that the client resolved.
	Hosts map[string][]netip.Addr
}

// Sizes holds the current size of a terminal, which can change while a tool runs. A change arrives before the input
// that follows it. If a tool calls Take before it forwards input, it never forwards a key too early. NewSizes creates
// Sizes.
type Sizes struct {
	Changed chan struct{} // holds one element if there may be a new size
	mu      sync.Mutex
	now     Size
	fresh   bool
}

// NewSizes returns Sizes without a change.
func NewSizes() *Sizes { return &Sizes{Changed: make(chan struct{}, 1)} }

// Put records a change.
func (s *Sizes) Put(now Size) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.now, s.fresh = now, true
	select {
	case s.Changed <- struct{}{}:
	default: // the last change has not been read yet
	}
}

// Take passes a changed size to set, and waits until set returns.
func (s *Sizes) Take(set func(Size)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.fresh {
		set(s.now)
	}
	s.fresh = false
}

// Size is the size of a terminal in characters. Zero means no terminal.
type Size struct {
	Rows uint16 `json:"rows"`
	Cols uint16 `json:"cols"`
}

// Call runs a tool.
type Call struct {
	Tool string   `json:"tool"`
	Args []string `json:"args,omitempty"`
	Size Size     `json:"size,omitzero"` // size of the user's terminal, if any
	// From is the workload pod (a KindLocal target) in whose network namespace the tool runs. nil
	// means the node's namespace.
	From *Target `json:"from,omitempty"`
	// Key encrypts the output, see Seal.
	Key []byte `json:"key,omitempty"`
	// Hosts maps arguments that the client can resolve, such as node names, to their addresses. The node might not
	// have a DNS server that resolves them.
	Hosts map[string][]netip.Addr `json:"hosts,omitempty"`
}

// toolOutput turns a tool's output into events.
type toolOutput struct {
	emit   func(Event)
	atOnce bool // send immediately, because the user types and waits for the echo

	mu    sync.Mutex
	kept  []byte
	timer *time.Timer // nil = no output is waiting
}

const (
	// piece is the maximum number of bytes of a tool's output in one event. A control character takes six bytes in
	// JSON, and a line must not exceed MaxLine.
	piece = 640
	// collecting is the time for which output waits for more output, because tools write tables cell by cell.
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

// end sends the rest of the output.
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

// whole returns the length of a text, not counting an incomplete character at its end. If the output is not
// text, it returns the full length.
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

// inbox forwards typed input to a tool that may read it late or never.
type inbox struct {
	mu     sync.Mutex
	more   *sync.Cond
	kept   []byte
	closed bool
}

// maxTyped limits the amount of input that waits for a tool that does not read.
const maxTyped = 1 << 20

func newInbox() *inbox {
	i := &inbox{}
	i.more = sync.NewCond(&i.mu)
	return i
}

// put adds bytes. It returns false if there is not enough space for them.
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
