package probe

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"io"
	"slices"
	"time"
)

// RequestType is the kind of a line from the client.
type RequestType string

// All request types.
const (
	RequestPlan   RequestType = "plan"   // answer this plan
	RequestCall   RequestType = "call"   // run this tool
	RequestStop   RequestType = "stop"   // end the plan or the call with this ID now
	RequestTyped  RequestType = "typed"  // typed input, or a new terminal size, for the call with this ID
	RequestResume RequestType = "resume" // repeat the events starting at number Seq
	RequestBeat   RequestType = "beat"   // the client is still connected
	RequestEnd    RequestType = "end"    // exit as soon as the running request is answered
)

// Request is one line from the client to the probe.
type Request struct {
	Type RequestType `json:"type"`
	// ID identifies a plan or a call. IDs increase. If a client is not sure whether a request arrived, it repeats the
	// request with the same ID. The probe answers that request only once. A request with ID 0 is always new.
	ID    int64  `json:"id,omitempty"`
	Plan  *Plan  `json:"plan,omitempty"`
	Call  *Call  `json:"call,omitempty"`
	Typed []byte `json:"typed,omitempty"`
	Size  Size   `json:"size,omitzero"`
	Seq   int64  `json:"seq,omitempty"`
}

// Session timing. Both sides send beats so that each side notices a dead connection.
const (
	BeatEvery = 5 * time.Second
	Silence   = 30 * time.Second // the probe exits if it gets no request from the client for this long
	maxPlan   = 16 << 20         // maximum size of one request line in bytes: a mesh of 5,000 nodes needs 4 MB
)

// remembered is the maximum number of bytes of events that a session can repeat.
const remembered = 4 << 20

// ErrStopped is the reason why a plan or call ended if the client stopped it.
var ErrStopped = errors.New("stopped")

// current is the plan or call that is running.
type current struct {
	id    int64
	stop  context.CancelCauseFunc
	ended chan struct{}
	typed *inbox
	sizes *Sizes
}

// waiting is a plan or a call in the queue.
type waiting struct {
	Request
	stopped bool // stopped before it started
}

// session is the probe's side of a session with a client.
type session struct {
	*Runner
	enc    *Encoder
	own    chan Event // events that do not belong to a request
	repeat chan int64 // event numbers at which to start repeating
	queue  []waiting
	last   int64    // highest request ID so far
	now    *current // nil = nothing is running
	heard  bool     // the client has sent a request
	ending bool     // finish the running request and the queue, but accept nothing else
}

// maxOwn is the maximum number of queued events that do not belong to a request.
const maxOwn = 16

// Serve reads requests from in and writes the answers to out. It returns if the client ends the session, in is
// closed, the client is silent for 30 seconds, or ctx ends. If the client is lost, a running plan continues, for
// readers of the container's log. A running call is stopped. The error is a write error, or nil.
func (r *Runner) Serve(ctx context.Context, in io.Reader, out io.Writer) error {
	s := &session{Runner: r, enc: NewEncoder(out), own: make(chan Event, maxOwn), repeat: make(chan int64, 1)}
	s.enc.Keep(remembered)
	quit := make(chan struct{})
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	written := Async(func() error {
		defer cancel() // without beats, the client abandons the session
		s.writeOwn(quit)
		return nil
	})
	requests := make(chan Request)
	Detach(func() error {
		defer close(requests) // the client is lost
		if crash := Recovered(func() error { readRequests(in, requests, quit, s.log); return nil }); crash != nil {
			s.log("reading requests: " + crash.Error())
		}
		return nil
	}, s.crashed)
	s.serve(ctx, requests)
	close(quit)
	return errors.Join(s.enc.Err(), <-written)
}

// serve handles requests until the session ends.
func (s *session) serve(ctx context.Context, requests <-chan Request) {
	beat := time.NewTicker(BeatEvery)
	defer beat.Stop()
	silence := time.NewTimer(Silence)
	defer silence.Stop()
	for {
		s.begin(ctx)
		if s.now == nil && (s.ending || ctx.Err() != nil) {
			return
		}
		var ended chan struct{}
		if s.now != nil {
			ended = s.now.ended
		}
		select {
		case req, open := <-requests:
			s.heard = true
			if open {
				silence.Reset(Silence)
				s.handle(req)
				continue
			}
			silence.Stop()
			requests = nil
			if !s.ending { // otherwise the client announced the end
				s.clientLost()
			}
		case <-ended:
			s.now = nil
		case <-beat.C:
			// Do not write a beat before the client has attached, because the client would miss it.
			// One queued beat is enough.
			if s.heard && len(s.own) == 0 {
				s.say(Event{Type: EventBeat})
			}
		case <-silence.C:
			requests, s.queue = nil, nil
			s.clientLost()
			s.log("no request from the client for " + Silence.String() + ", exiting")
		case <-ctx.Done():
			if s.now != nil {
				<-s.now.ended // checks and tools honour ctx, and the runner's grace limits the remaining time
				s.now = nil
			}
		}
	}
}

// clientLost ends the session after the running plan and the queued plans. A client may still read their answers
// from the container's log. Calls are useful only to a connected client, so clientLost stops or drops them.
func (s *session) clientLost() {
	s.ending = true
	s.queue = slices.DeleteFunc(s.queue, func(w waiting) bool { return w.Call != nil })
	if s.now != nil && s.now.typed != nil {
		s.now.stop(ErrStopped)
	}
}

func (s *session) log(text string) { s.say(Event{Type: EventLog, Text: text}) }

func (s *session) crashed(err error) { s.log("the probe " + err.Error()) }

// say queues an event that does not belong to a request. If the queue is full, it drops the event.
func (s *session) say(ev Event) {
	select {
	case s.own <- ev:
	default:
	}
}

// writeOwn writes the events that do not belong to a request, and repeats events, until quit. A write may block for a
// long time, for example while the user reads a pager. It therefore runs on a separate goroutine, and the session can
// still read the client's requests and beats.
func (s *session) writeOwn(quit <-chan struct{}) {
	for {
		select {
		case ev := <-s.own:
			s.enc.Encode(ev)
		case seq := <-s.repeat:
			s.enc.Resume(seq)
		case <-quit:
			for len(s.own) > 0 {
				s.enc.Encode(<-s.own)
			}
			return
		}
	}
}

// handle acts on a request immediately, or queues a plan or a call.
func (s *session) handle(req Request) {
	forNow := s.now != nil && s.now.id == req.ID
	switch {
	case req.Type == RequestEnd:
		s.ending = true
	case req.Type == RequestPlan && req.Plan != nil, req.Type == RequestCall && req.Call != nil:
		if req.ID == 0 || req.ID > s.last {
			s.queue, s.last = append(s.queue, waiting{Request: req}), max(s.last, req.ID)
		}
	case req.Type == RequestStop && forNow:
		s.now.stop(ErrStopped)
	case req.Type == RequestStop:
		for i := range s.queue {
			s.queue[i].stopped = s.queue[i].stopped || s.queue[i].ID == req.ID
		}
	case req.Type == RequestTyped && forNow && s.now.typed != nil:
		if req.Size != (Size{}) { // first, because the user typed at this terminal size
			s.now.sizes.Put(req.Size)
		}
		if len(req.Typed) > 0 && !s.now.typed.put(req.Typed) {
			s.log("typed input is lost: nothing reads it")
		}
	case req.Type == RequestResume:
		select {
		case <-s.repeat: // for a connection that is already lost
		default:
		}
		s.repeat <- req.Seq
	}
}

// begin starts the next plan or call if nothing is running.
func (s *session) begin(ctx context.Context) {
	if s.now != nil || len(s.queue) == 0 {
		return
	}
	req := s.queue[0]
	s.queue = s.queue[1:]
	ctx, stop := context.WithCancelCause(ctx)
	now := &current{id: req.ID, stop: stop, ended: make(chan struct{})}
	if req.Call != nil {
		now.typed, now.sizes = newInbox(), NewSizes()
		context.AfterFunc(ctx, now.typed.close)
	}
	if req.stopped {
		stop(ErrStopped)
	}
	s.now = now
	Detach(func() error {
		defer close(now.ended)
		defer stop(nil)
		emit := func(ev Event) {
			if ev.Start != nil {
				ev.Start.ID = req.ID
			}
			s.enc.Encode(ev)
		}
		crash := Recovered(func() error {
			if req.Plan != nil {
				s.Run(ctx, *req.Plan, emit)
			} else {
				s.call(ctx, *req.Call, now, emit)
			}
			return nil
		})
		if crash != nil { // the client reports the checks that have no answer
			s.crashed(crash)
			s.enc.Encode(Event{Type: EventEnd, End: &End{Counts: Counts{}}})
		}
		return nil
	}, s.crashed)
}

// readRequests sends each request line to out until in is closed.
func readRequests(in io.Reader, out chan<- Request, quit <-chan struct{}, log func(string)) {
	lines := bufio.NewScanner(in)
	lines.Buffer(make([]byte, 0, MaxLine), maxPlan)
	for lines.Scan() {
		if len(lines.Bytes()) == 0 { // ends a partial line from a lost connection
			continue
		}
		var req Request
		if err := json.Unmarshal(lines.Bytes(), &req); err != nil {
			log("request not understood: " + err.Error())
			continue
		}
		select {
		case out <- req:
		case <-quit:
			return
		}
	}
	if err := lines.Err(); err != nil {
		log("reading requests: " + err.Error())
	}
}
