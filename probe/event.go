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

// The closed list of event types. Readers skip unknown types.
const (
	EventStart  EventType = "start"  // a plan begins
	EventResult EventType = "result" // one result
	EventLog    EventType = "log"    // a message about the probe itself
	EventBeat   EventType = "beat"   // still alive
	EventEnd    EventType = "end"    // the plan or the call is answered; without it a stream is incomplete
	EventOut    EventType = "out"    // a piece of a tool's output, newlines included
	EventResume EventType = "resume" // the next events are repeated, from this number on

	// EventComparison is one line, in Text, of the comparison with the baseline nodes.
	EventComparison EventType = "contrast"
	// EventCause is a cause the client concluded, before the verdict.
	EventCause EventType = "cause"
	// EventVerdict is the last event of a saved run. The client writes it once.
	EventVerdict EventType = "verdict"
	// EventTyped is a command of a session, in Text. The client writes it.
	EventTyped EventType = "typed"
	// EventDone is the outcome of a typed command, in Text; "" on success.
	EventDone EventType = "done"
	// EventRecheck announces that the client checks a node again, with the checks in Start; with MethodBaseline it also
	// queries other nodes about the node. Earlier answers to these checks are stale.
	EventRecheck EventType = "asked"
	// EventSession begins the transcript of a session. Start describes the client.
	EventSession EventType = "session"
	// EventRun begins a run. Start describes the client, its cluster, and the time.
	EventRun EventType = "run"
	// EventGroup is a group of nodes of a fleet with the same cause. The client writes it before the fleet's verdict,
	// which is the last event and has no node.
	EventGroup EventType = "group"
)

// EventTypes lists every event type.
func EventTypes() []EventType {
	return []EventType{
		EventStart, EventResult, EventLog, EventBeat, EventEnd, EventOut, EventResume, EventComparison,
		EventCause, EventVerdict, EventTyped, EventDone, EventRecheck, EventSession, EventRun, EventGroup,
	}
}

// MaxLine is the maximum size of an event on the wire in bytes, newline included. It is small enough to be atomic on a
// pipe and never split by a container log. Causes and the verdict may be longer: the client writes them, so they are
// never on the wire.
const MaxLine = 4096

// Event is one line of the stream. Seq counts from 0 without gaps over the life of one probe, so a reader of two
// copies can drop duplicates.
type Event struct {
	Seq    int64     `json:"seq"`
	Type   EventType `json:"type"`
	Start  *Start    `json:"start,omitempty"`
	Result *Result   `json:"result,omitempty"`
	Text   string    `json:"text,omitempty"` // of a log, contrast, typed, done or out event
	Data   []byte    `json:"data,omitempty"` // of an out event whose bytes are not text, or are sealed
	Sealed bool      `json:"sealed,omitempty"`
	End    *End      `json:"end,omitempty"`
	// Cause is one of the causes that explain the results, the most likely first.
	Cause *Cause `json:"cause,omitempty"`
	// Verdict is the client's conclusion.
	Verdict *Verdict `json:"verdict,omitempty"`
	// Group is a group of nodes of a fleet, the largest group first.
	Group *Group `json:"group,omitempty"`
	// Node and Way are set by a reader that merges several streams.
	Node   string `json:"node,omitempty"`
	Method string `json:"way,omitempty"`
	// At is when the client received the event, in the transcript of a session. For is the affected node, if another node
	// reports about it.
	At  time.Time `json:"at,omitzero"`
	For string    `json:"for,omitempty"`
}

// Start describes the answering program, and where it runs.
type Start struct {
	V       int       `json:"v"`       // wire version
	Version string    `json:"version"` // of the program
	Run     string    `json:"run"`
	Node    string    `json:"node,omitempty"`
	Method  string    `json:"way,omitempty"`
	Time    time.Time `json:"time"` // the answering machine's clock
	Checks  []string  `json:"checks"`
	Access  []string  `json:"access,omitempty"` // the probe's actual access
	Tool    string    `json:"tool,omitempty"`   // of a call, which has no checks
	Tools   []string  `json:"tools,omitempty"`  // tools of this probe; of a plan without checks
	ID      int64     `json:"id,omitempty"`     // of the request
	// FollowUp is true if earlier findings triggered these checks.
	FollowUp bool `json:"follow_up,omitempty"`
	// Cluster is the cluster that the client queries. It is set only in the client's own events, and empty with access
	// method local.
	Cluster *Cluster `json:"cluster,omitempty"`
	// Attributes may distinguish a node of a fleet from other nodes, each NAME=VALUE.
	Attributes []string `json:"attributes,omitempty"`
}

// Cluster is the cluster whose API a client queries.
type Cluster struct {
	Context string `json:"context,omitempty"` // context of the kubeconfig; empty inside the cluster
	Server  string `json:"server"`            // scheme, host and port: a path or credentials may be secret
}

// String is the name people use: prod-eu (https://10.0.0.1:6443).
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
	Stopped bool          `json:"stopped,omitempty"` // the client stopped it
}

// Verdict is the client's conclusion over all streams of a run.
type Verdict struct {
	// healthy, warnings, incomplete or fault; of preflight ready, incomplete or not ready
	Word    string        `json:"verdict"`
	Exit    int           `json:"exit"`
	Strict  bool          `json:"strict,omitempty"` // warnings had a separate exit code
	Counts  Counts        `json:"counts"`
	Elapsed time.Duration `json:"elapsed_ns"`
	// Unexplained are the failed checks that no cause explains.
	Unexplained []string `json:"unexplained,omitempty"`
	// Outside is why no other node tested this node. It is empty if a node did, or if the verdict is worse than warnings.
	Outside string `json:"outside,omitempty"`
}

// Encoder writes events, each as one whole line in one Write. It is safe for concurrent use. After the first write
// error it stops writing, and Err returns the error.
type Encoder struct {
	turn chan struct{} // full during a write, which may block forever
	w    io.Writer
	seq  int64
	err  error

	kept [][]byte // the last lines written, if Keep was called
	room int      // free bytes for them
	keep int      // maximum bytes of them, 0 = keep none
}

// NewEncoder returns an Encoder whose first event has number 0.
func NewEncoder(w io.Writer) *Encoder { return &Encoder{turn: make(chan struct{}, 1), w: w} }

// Err returns the first write error.
func (e *Encoder) Err() error { e.lock(); defer e.unlock(); return e.err }

func (e *Encoder) lock()   { e.turn <- struct{}{} }
func (e *Encoder) unlock() { <-e.turn }

// Encode numbers ev and writes it in one line of at most MaxLine bytes. It splits a piece of a tool's output into
// several events, and shortens any other event. A log event replaces an event that cannot be written.
func (e *Encoder) Encode(ev Event) {
	e.lock()
	defer e.unlock()
	e.put(ev)
}

// put must be called by the goroutine that holds the turn.
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

// Keep makes the Encoder keep the last lines that it wrote, up to this many bytes in total, for a reader that lost
// its connection.
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

// Resume writes a resume event with the number of the next event. Then it repeats the kept events from number seq on.
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

// Decoder reads a stream of events. It passes other lines to Noise, and continues.
type Decoder struct {
	Noise func(line string)
	Size  int // bytes in the line of the last event
	in    *bufio.Reader
}

// maxSavedLine is the longest line of a saved file that a Decoder reads. Causes, groups of a few thousand nodes and the
// verdict are never on the wire, so MaxLine does not bound them.
const maxSavedLine = 1 << 20

// NewDecoder reads saved events.
func NewDecoder(r io.Reader) *Decoder { return &Decoder{in: bufio.NewReaderSize(r, maxSavedLine)} }

// NewLiveDecoder reads events as a probe sends them: a line longer than MaxLine is not from a probe.
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
				return ev, nil // a last line without a newline is complete if it parses
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

// named reports whether a text can be the ID of a check. IDs are shown unescaped, so they must not control a
// terminal.
func named(id string) bool {
	return id != "" && !strings.ContainsFunc(id, func(r rune) bool { return r <= ' ' || r > '~' })
}
