package probe

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"
)

// EventType is the kind of an event line.
type EventType string

// All event types. Readers skip unknown types.
const (
	EventStart  EventType = "start"  // a plan begins
	EventResult EventType = "result" // one result
	EventLog    EventType = "log"    // a message about the probe itself
	EventBeat   EventType = "beat"   // still alive
	EventEnd    EventType = "end"    // the plan or the call is answered; a stream without this event is incomplete
	EventOut    EventType = "out"    // a piece of a tool's output, including newlines
	EventResume EventType = "resume" // the events that follow are repeated, starting at this number

	// EventComparison is one line, in Text, of the comparison with the baseline nodes.
	EventComparison EventType = "contrast"
	// EventCause is a cause that the client found. It comes before the verdict.
	EventCause EventType = "cause"
	// EventVerdict is the last event of a saved run. The client writes it once.
	EventVerdict EventType = "verdict"
	// EventTyped is a command that the user typed in a session, in Text. The client writes it.
	EventTyped EventType = "typed"
	// EventDone is the outcome of a typed command, in Text. On success, Text is "".
	EventDone EventType = "done"
	// EventRecheck announces that the client is checking a node again, with the checks in Start. With MethodBaseline,
	// the client also queries other nodes about this node. Earlier answers to these checks are stale.
	EventRecheck EventType = "asked"
	// EventSession starts the transcript of a session. Start describes the client.
	EventSession EventType = "session"
	// EventRun starts a run. Start describes the client, its cluster, and the time.
	EventRun EventType = "run"
	// EventGroup is a group of nodes of a fleet that have the same cause. The client writes it before the fleet's
	// verdict. That verdict is the last event and has no node.
	EventGroup EventType = "group"
)

// EventTypes lists every event type.
func EventTypes() []EventType {
	return []EventType{
		EventStart, EventResult, EventLog, EventBeat, EventEnd, EventOut, EventResume, EventComparison,
		EventCause, EventVerdict, EventTyped, EventDone, EventRecheck, EventSession, EventRun, EventGroup,
	}
}

// MaxLine is the maximum size of an event on the wire in bytes, including the newline. A line of this size is written
// atomically to a pipe, and a container log never splits it. Causes and the verdict may be longer, because the client
// writes them and never sends them.
const MaxLine = 4096

// Event is one line of the stream. Seq starts at 0 and has no gaps while a probe runs, so a reader of two copies
// can drop duplicates.
type Event struct {
	Seq    int64     `json:"seq"`
	Type   EventType `json:"type"`
	Start  *Start    `json:"start,omitempty"`
	Result *Result   `json:"result,omitempty"`
	Text   string    `json:"text,omitempty"` // of a log, contrast, typed, done or out event
	Data   []byte    `json:"data,omitempty"` // of an out event, if its bytes are sealed or are not text
	Sealed bool      `json:"sealed,omitempty"`
	End    *End      `json:"end,omitempty"`
	// Cause is one of the causes that explain the results. The most likely cause comes first.
	Cause *Cause `json:"cause,omitempty"`
	// Verdict is the client's conclusion.
	Verdict *Verdict `json:"verdict,omitempty"`
	// Group is a group of nodes of a fleet. The largest group comes first.
	Group *Group `json:"group,omitempty"`
	// A reader that merges several streams sets Node and Way.
	Node   string `json:"node,omitempty"`
	Method string `json:"way,omitempty"`
	// At is the time when the client received the event. It is set in the transcript of a session. For is the affected
	// node, if another node reports about it.
	At  time.Time `json:"at,omitzero"`
	For string    `json:"for,omitempty"`
}

// Start describes the program that answers, and where it runs.
type Start struct {
	V       int       `json:"v"`       // version of the wire format
	Version string    `json:"version"` // of the program
	Run     string    `json:"run"`
	Node    string    `json:"node,omitempty"`
	Method  string    `json:"way,omitempty"`
	Time    time.Time `json:"time"` // clock of the machine that answers
	Checks  []string  `json:"checks"`
	Access  []string  `json:"access,omitempty"` // the access that the probe actually has
	Tool    string    `json:"tool,omitempty"`   // of a call, which has no checks
	Tools   []string  `json:"tools,omitempty"`  // tools of this probe, if the plan has no checks
	ID      int64     `json:"id,omitempty"`     // of the request
	// FollowUp is true if earlier findings triggered these checks.
	FollowUp bool `json:"follow_up,omitempty"`
	// Cluster is the cluster that the client queries. It is set only in the client's own events, and empty with access
	// method local.
	Cluster *Cluster `json:"cluster,omitempty"`
	// Attributes lists NAME=VALUE pairs that may distinguish a node from the other nodes of a fleet.
	Attributes []string `json:"attributes,omitempty"`
}

// Cluster identifies the cluster whose API a client queries.
type Cluster struct {
	Context string `json:"context,omitempty"` // context of the kubeconfig; empty inside the cluster
	Server  string `json:"server"`            // scheme, host and port only, because a path or credentials may be secret
}

// String returns the name that people use: prod-eu (https://10.0.0.1:6443).
func (c Cluster) String() string {
	if c.Context == "" {
		return c.Server
	}
	return fmt.Sprintf("%s (%s)", c.Context, c.Server)
}

// End closes a plan or a call.
type End struct {
	Results int           `json:"results"`
	Counts  Counts        `json:"counts"`
	Elapsed time.Duration `json:"elapsed_ns"`
	Outcome *Result       `json:"outcome,omitempty"` // the result of a call
	Stopped bool          `json:"stopped,omitempty"` // true if the client stopped it
}

// Verdict is the client's conclusion over all streams of a run.
type Verdict struct {
	// healthy, warnings, incomplete or fault; for preflight: ready, incomplete or not ready
	Word    string        `json:"verdict"`
	Exit    int           `json:"exit"`
	Strict  bool          `json:"strict,omitempty"` // true if warnings had a separate exit code
	Counts  Counts        `json:"counts"`
	Elapsed time.Duration `json:"elapsed_ns"`
	// Unexplained lists the failed checks that no cause explains.
	Unexplained []string `json:"unexplained,omitempty"`
	// Outside is the reason why no other node tested this node. It is empty if another node did, or
	// if the verdict is worse than warnings.
	Outside string `json:"outside,omitempty"`
}

// Encoder writes each event as one whole line in one Write. It is safe for concurrent use. After the first write
// error it stops writing, and Err returns the error.
type Encoder struct {
	turn chan struct{} // full during a write, because the write may block forever
	w    io.Writer
	seq  int64
	err  error

	kept [][]byte // the lines written last, if Keep was called
	room int      // number of bytes still free for them
	keep int      // maximum number of bytes for them, 0 = keep none
}

// NewEncoder returns an Encoder whose first event has number 0.
func NewEncoder(w io.Writer) *Encoder { return &Encoder{turn: make(chan struct{}, 1), w: w} }

// Err returns the first write error.
func (e *Encoder) Err() error { e.lock(); defer e.unlock(); return e.err }

func (e *Encoder) lock()   { e.turn <- struct{}{} }
func (e *Encoder) unlock() { <-e.turn }

// Encode numbers ev and writes it in one line of at most MaxLine bytes. It splits a piece of a tool's output into
// several events. It shortens every other event that is too long. If it cannot write an event, it writes a log
// event instead.
func (e *Encoder) Encode(ev Event) {
	e.lock()
	defer e.unlock()
	e.put(ev)
}

// Only the goroutine that holds the turn may call put.
func (e *Encoder) put(ev Event) {
	if e.err != nil {
		return
	}
	ev.Seq = e.seq
	line, err := fit(ev)
	if err != nil {
		if first, second, ok := halves(ev); ok {
			e.put(first)
			e.put(second)
			return
		}
		lost := Event{Type: EventLog, Text: "left out: " + err.Error(), Node: ev.Node, Method: ev.Method, For: ev.For,
			At: ev.At, Seq: e.seq}
		if line, err = fit(lost); err != nil {
			return
		}
	}
	e.seq++
	e.remember(line)
	_, e.err = e.w.Write(line)
}

// Keep makes the Encoder keep the lines that it wrote last, up to this many bytes in total. A reader that lost its
// connection can then get them again.
func (e *Encoder) Keep(bytes int) {
	e.lock()
	defer e.unlock()
	e.keep, e.room = bytes, bytes
}

func (e *Encoder) remember(line []byte) {
	if e.keep == 0 {
		return
	}
	e.kept, e.room = append(e.kept, line), e.room-len(line)
	for e.room < 0 {
		e.room += len(e.kept[0])
		e.kept[0] = nil // otherwise it stays in memory with the rest of the array
		e.kept = e.kept[1:]
	}
}

// Resume writes a resume event with the number of the next event. Then it repeats the events that
// it kept, starting at number seq.
func (e *Encoder) Resume(seq int64) {
	e.lock()
	defer e.unlock()
	from := min(max(seq, e.seq-int64(len(e.kept))), e.seq)
	mark, err := fit(Event{Seq: from, Type: EventResume})
	for _, line := range append([][]byte{mark}, e.kept[int64(len(e.kept))-(e.seq-from):]...) {
		if err == nil && e.err == nil {
			_, e.err = e.w.Write(line)
		}
	}
	if e.err == nil {
		e.err = err
	}
}

// Decoder reads a stream of events. It passes all other lines to Noise and continues.
type Decoder struct {
	Noise func(line string)
	Size  int // length of the last event's line in bytes
	in    *bufio.Reader
}

// maxSavedLine is the maximum length of a line that a Decoder reads from a saved file. MaxLine does not limit causes,
// verdicts, or groups of a few thousand nodes, because they are never sent over the wire.
const maxSavedLine = 1 << 20

// NewDecoder returns a Decoder for saved events.
func NewDecoder(r io.Reader) *Decoder { return &Decoder{in: bufio.NewReaderSize(r, maxSavedLine)} }

// NewLiveDecoder returns a Decoder for events from a probe. A line longer than MaxLine does not come from a probe.
func NewLiveDecoder(r io.Reader) *Decoder { return &Decoder{in: bufio.NewReaderSize(r, MaxLine)} }

// Next returns the next event. At the end of the stream the error is io.EOF; any other error is a read error.
func (d *Decoder) Next() (Event, error) {
	for {
		line, err := d.in.ReadSlice('\n')
		switch {
		case errors.Is(err, bufio.ErrBufferFull):
			d.noise(fmt.Sprintf("(a line of more than %d KiB was dropped)", d.in.Size()>>10))
			for errors.Is(err, bufio.ErrBufferFull) {
				_, err = d.in.ReadSlice('\n')
			}
		case len(line) > 0:
			var ev Event
			if json.Unmarshal(line, &ev) == nil && ev.valid() {
				d.Size = len(line)
				return ev, nil // the last line is complete without a newline if it parses
			}
			d.noise(string(bytes.TrimRight(line, "\r\n")))
		}
		if errors.Is(err, io.EOF) {
			return Event{}, io.EOF
		}
		if err != nil {
			return Event{}, fmt.Errorf("reading events: %w", err)
		}
	}
}

func (d *Decoder) noise(line string) {
	if d.Noise != nil && line != "" {
		d.Noise(line)
	}
}

// valid reports whether a line of JSON is a usable event.
func (ev *Event) valid() bool {
	switch ev.Type {
	case EventStart, EventRecheck, EventSession, EventRun:
		return ev.Start != nil
	case EventResult:
		return ev.Result != nil && named(ev.Result.Check) && slices.Contains(Statuses(), ev.Result.Status)
	case EventEnd:
		return ev.End != nil
	case EventCause:
		return ev.Cause != nil
	case EventVerdict:
		return ev.Verdict != nil
	case EventGroup:
		return ev.Group != nil
	}
	return ev.Type != ""
}

// named reports whether a text can be the ID of a check. IDs are shown unescaped, so they must not contain
// terminal control characters.
func named(id string) bool {
	return id != "" && !strings.ContainsFunc(id, func(r rune) bool { return r <= ' ' || r > '~' })
}
