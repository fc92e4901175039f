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

// EventType is what an event line says.
type EventType string

// The closed list of event types. Readers skip types they do not know.
const (
	EventStart  EventType = "start"  // a plan begins
	EventResult EventType = "result" // one result
	EventLog    EventType = "log"    // something about the probe itself, in words
	EventBeat   EventType = "beat"   // still alive
	EventEnd    EventType = "end"    // the plan or the call is answered; without it a stream is incomplete
	EventOut    EventType = "out"    // a piece of what a tool writes, newlines and all
	EventResume EventType = "resume" // what follows was said before, from this number on

	// EventComparison is one line, in Text, of the comparison with the baseline nodes.
	EventComparison EventType = "contrast"
	// EventCause is a cause the client concluded, before the verdict.
	EventCause EventType = "cause"
	// EventVerdict closes a saved run: written by the client, once, last.
	EventVerdict EventType = "verdict"
	// EventTyped is a command of a session, in Text, written by the client.
	EventTyped EventType = "typed"
	// EventDone is what that command came to, in Text, "" when all went well.
	EventDone EventType = "done"
	// EventAsked says that the client now asks a node anew, the checks in Start; with
	// WayNeighbour also its neighbours about it. What was answered to that before is old.
	EventAsked EventType = "asked"
	// EventSession begins the transcript of a session; Start tells of the client.
	EventSession EventType = "session"
	// EventRun begins a run: Start tells of the client, of the cluster it asks, and when.
	EventRun EventType = "run"
	// EventGroup is nodes of a fleet with the same cause, written by the client before the last verdict, which is
	// that of the fleet and has no node.
	EventGroup EventType = "group"
)

// EventTypes lists every type of an event.
func EventTypes() []EventType {
	return []EventType{
		EventStart, EventResult, EventLog, EventBeat, EventEnd, EventOut, EventResume, EventComparison,
		EventCause, EventVerdict, EventTyped, EventDone, EventAsked, EventSession, EventRun, EventGroup,
	}
}

// MaxLine is the most bytes an event takes on the wire, newline included: small
// enough to be atomic on a pipe and never split by a container log. Causes and the
// verdict are written by the client, never travel that way, and may be longer.
const MaxLine = 4096

// Event is one line of the stream. Seq counts from 0 without gaps over the life
// of one probe, so a reader of two copies can drop what it has seen.
type Event struct {
	Seq    int64     `json:"seq"`
	Type   EventType `json:"type"`
	Start  *Start    `json:"start,omitempty"`
	Result *Result   `json:"result,omitempty"`
	Text   string    `json:"text,omitempty"` // of a log, contrast, typed, done or out event
	Data   []byte    `json:"data,omitempty"` // of an out event whose bytes are no text, or are sealed
	Sealed bool      `json:"sealed,omitempty"`
	End    *End      `json:"end,omitempty"`
	// Cause is one of those that explain what was seen, the likeliest first.
	Cause *Cause `json:"cause,omitempty"`
	// Verdict is what the client concluded.
	Verdict *Verdict `json:"verdict,omitempty"`
	// Group is what several nodes of a fleet have in common, the largest first.
	Group *Group `json:"group,omitempty"`
	// Node and Way are stamped by a reader that merges several streams.
	Node string `json:"node,omitempty"`
	Way  string `json:"way,omitempty"`
	// At is when the client had it, in the transcript of a session; For the node in
	// question, where another one says something about it.
	At  time.Time `json:"at,omitzero"`
	For string    `json:"for,omitempty"`
}

// Start describes who answers and from where.
type Start struct {
	V       int       `json:"v"`       // wire version
	Version string    `json:"version"` // of the program
	Run     string    `json:"run"`
	Node    string    `json:"node,omitempty"`
	Way     string    `json:"way,omitempty"`
	Time    time.Time `json:"time"` // the answering machine's clock
	Checks  []string  `json:"checks"`
	Access  []string  `json:"access,omitempty"` // what the probe really holds
	Tool    string    `json:"tool,omitempty"`   // of a call, which has no checks
	Tools   []string  `json:"tools,omitempty"`  // what this probe has; of a plan without checks
	ID      int64     `json:"id,omitempty"`     // of the request that is answered
	// FollowUp is true where the checks were asked only because of what was found before.
	FollowUp bool `json:"follow_up,omitempty"`
	// Cluster is the one that is asked, where a client says this of itself; none by way of local.
	Cluster *Cluster `json:"cluster,omitempty"`
	// Attributes are what may set a node of a fleet apart from others, each NAME=VALUE.
	Attributes []string `json:"attributes,omitempty"`
}

// Cluster is the one whose API a client asks.
type Cluster struct {
	Context string `json:"context,omitempty"` // of the kubeconfig; none within the cluster
	Server  string `json:"server"`            // scheme, host and port: a path or credentials may be secret
}

// String is as people name it: prod-eu (https://10.0.0.1:6443).
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
	Outcome *Result       `json:"outcome,omitempty"` // of a call: how it went
	Stopped bool          `json:"stopped,omitempty"` // the client stopped it
}

// Verdict is the client's conclusion over all streams of a run.
type Verdict struct {
	// healthy, warnings, incomplete or fault; of preflight ready, incomplete or not ready
	Word    string        `json:"verdict"`
	Exit    int           `json:"exit"`
	Strict  bool          `json:"strict,omitempty"` // warnings were to have an exit code of their own
	Counts  Counts        `json:"counts"`
	Elapsed time.Duration `json:"elapsed_ns"`
	// Unexplained are the checks with bad answers that no cause explains.
	Unexplained []string `json:"unexplained,omitempty"`
	// Outside is why no other node tested this one, "" where one did, and beside what is worse than a warning.
	Outside string `json:"outside,omitempty"`
}

// Encoder writes events, each as one whole line in one Write. It is safe for
// concurrent use. After the first write error it stays silent; Err tells.
type Encoder struct {
	turn chan struct{} // holds one while something is written, which may take for ever
	w    io.Writer
	seq  int64
	err  error

	kept [][]byte // the last lines written, where they are kept at all
	room int      // bytes they may still take
	keep int      // bytes they may take, 0 = none are kept
}

// NewEncoder returns an Encoder whose first event has number 0.
func NewEncoder(w io.Writer) *Encoder { return &Encoder{turn: make(chan struct{}, 1), w: w} }

// Err is the first error that writing met.
func (e *Encoder) Err() error { e.lock(); defer e.unlock(); return e.err }

func (e *Encoder) lock()   { e.turn <- struct{}{} }
func (e *Encoder) unlock() { <-e.turn }

// Encode numbers ev and writes it in one line of at most MaxLine bytes: of a piece of a tool's
// output it makes several events, anything else it shortens. An event that cannot be written
// costs that event alone; a log event says so in its place.
func (e *Encoder) Encode(ev Event) {
	e.lock()
	defer e.unlock()
	e.put(ev)
}

// put is called by the one who holds the turn.
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
		lost := Event{Type: EventLog, Text: "left out: " + err.Error(), Node: ev.Node, Way: ev.Way, For: ev.For,
			At: ev.At, Seq: e.seq}
		if line, err = fit(lost); err != nil {
			return
		}
	}
	e.seq++
	e.remember(line)
	_, e.err = e.w.Write(line)
}

// Keep makes the Encoder remember the last lines it wrote, of so many bytes in all,
// for a reader whose connection was lost.
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
		e.kept[0] = nil // else it stays in memory for as long as its neighbours
		e.kept = e.kept[1:]
	}
}

// Resume writes again what it wrote from event number seq on, as far back as it
// remembers: first a resume event with the number of the one that follows.
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

// Decoder reads a stream of events. Lines that are no events are handed to
// Noise and do not end the stream.
type Decoder struct {
	Noise func(line string)
	Size  int // of the line of the last event, in bytes
	in    *bufio.Reader
}

// longest is the longest line of a saved file that a Decoder looks at: causes, groups of some thousand nodes and the
// verdict never travel over the wire.
const longest = 1 << 20

// NewDecoder reads events that were saved.
func NewDecoder(r io.Reader) *Decoder { return &Decoder{in: bufio.NewReaderSize(r, longest)} }

// NewLiveDecoder reads events as a probe sends them: a longer line than MaxLine is not from one.
func NewLiveDecoder(r io.Reader) *Decoder { return &Decoder{in: bufio.NewReaderSize(r, MaxLine)} }

// Next returns the next event. At the end of the stream the error is io.EOF;
// any other error is one of reading.
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
				return ev, nil // a last line without newline is whole if it parses
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

// valid tells an event that can be used from a line that merely is JSON.
func (ev *Event) valid() bool {
	switch ev.Type {
	case EventStart, EventAsked, EventSession, EventRun:
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

// named tells whether a text can be the ID of a check: what is shown as it is must not
// steer a terminal.
func named(id string) bool {
	return id != "" && !strings.ContainsFunc(id, func(r rune) bool { return r <= ' ' || r > '~' })
}
