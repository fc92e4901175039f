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

// RequestType is what a line from the client asks.
type RequestType string

// The closed list of requests.
const (
	RequestPlan   RequestType = "plan"   // answer this plan
	RequestCall   RequestType = "call"   // run this tool
	RequestStop   RequestType = "stop"   // end the plan or the call with this ID now
	RequestTyped  RequestType = "typed"  // this was typed for the call with this ID, or its terminal has a new size
	RequestResume RequestType = "resume" // say again what you said from event number Seq on
	RequestBeat   RequestType = "beat"   // the client is still there
	RequestEnd    RequestType = "end"    // end once what runs is answered
)

// Request is one line from the client to the probe.
type Request struct {
	Type RequestType `json:"type"`
	// ID is of a plan or a call, and rises: one that has been asked already, because the
	// client does not know whether it arrived, is not answered twice. 0 = always new.
	ID    int64  `json:"id,omitempty"`
	Plan  *Plan  `json:"plan,omitempty"`
	Call  *Call  `json:"call,omitempty"`
	Typed []byte `json:"typed,omitempty"`
	Size  Size   `json:"size,omitzero"`
	Seq   int64  `json:"seq,omitempty"`
}

// Session timing. Beats go both ways so that either side notices a dead line.
const (
	BeatEvery = 5 * time.Second
	Silence   = 30 * time.Second // without a line from the client for so long, the probe ends
	maxPlan   = 16 << 20         // bytes of one request line: a mesh of 5,000 nodes is 4 MB
)

// remembered is how many bytes of what it said a session can say again.
const remembered = 4 << 20

// ErrStopped is why a plan or a call ended that the client did not want any more.
var ErrStopped = errors.New("stopped")

// asked is the plan or the call that is being answered.
type asked struct {
	id    int64
	stop  context.CancelCauseFunc
	ended chan struct{}
	typed *inbox
	sizes *Sizes
}

// waiting is a plan or a call behind another.
type waiting struct {
	Request
	stopped bool // before it began
}

// session is one conversation with a client.
type session struct {
	*Runner
	enc   *Encoder
	own   chan Event // what is said of no request
	again chan int64 // from where to say again what was said
	queue []waiting
	last  int64  // highest ID of a request so far
	now   *asked // nil = nothing is being answered
}

// words is how much may be waiting that is said of no request.
const words = 16

// Serve reads requests from in and answers them on out until the client ends
// the session, in is closed, the client is silent for 30 seconds, or ctx ends.
// A plan that runs when the client is lost is still answered to its end, for those who
// read the container's log; a call is stopped. The error is that of writing, or nil.
func (r *Runner) Serve(ctx context.Context, in io.Reader, out io.Writer) error {
	s := &session{Runner: r, enc: NewEncoder(out), own: make(chan Event, words), again: make(chan int64, 1)}
	s.enc.Keep(remembered)
	quit, silent := make(chan struct{}), make(chan struct{})
	go func() { defer close(silent); s.speak(quit) }()
	requests := make(chan Request)
	go readRequests(in, requests, quit, s.log)

	beat := time.NewTicker(BeatEvery)
	defer beat.Stop()
	silence := time.NewTimer(Silence)
	defer silence.Stop()
	ending, heard := false, false
	lost := func() {
		requests, ending = nil, true
		s.queue = slices.DeleteFunc(s.queue, func(w waiting) bool { return w.Call != nil })
		if s.now != nil && s.now.typed != nil {
			s.now.stop(ErrStopped)
		}
	}
	for {
		s.begin(ctx)
		if s.now == nil && (ending || ctx.Err() != nil) {
			close(quit)
			<-silent
			return s.enc.Err()
		}
		var ended chan struct{}
		if s.now != nil {
			ended = s.now.ended
		}
		select {
		case req, open := <-requests:
			silence.Reset(Silence)
			heard = true
			switch {
			case !open:
				if !ending {
					lost()
				}
				requests = nil // all that there is to ask has been asked
				silence.Stop()
			case req.Type == RequestEnd:
				ending = true
			default:
				s.take(req)
			}
		case <-ended:
			s.now = nil
		case <-beat.C:
			// Nothing is said before the client is there: what is written before it has
			// attached would be missing from its copy.
			if heard && len(s.own) == 0 { // else one waits to be taken
				s.say(Event{Type: EventBeat})
			}
		case <-silence.C:
			s.queue = nil
			lost()
			s.log("no request from the client for " + Silence.String() + ", ending")
		case <-ctx.Done():
			if s.now != nil {
				<-s.now.ended // checks and tools honour ctx and the runner's grace bounds the rest
				s.now = nil
			}
		}
	}
}

func (s *session) log(text string) { s.say(Event{Type: EventLog, Text: text}) }

// say has something said of no request as soon as somebody takes it, if there is room.
func (s *session) say(ev Event) {
	select {
	case s.own <- ev:
	default:
	}
}

// speak says what is said of no request, until quit and to the end. It may block for as
// long as nobody takes what is written, a user perhaps who reads the first page in a
// pager: requests and the client's beats are heard all the same.
func (s *session) speak(quit <-chan struct{}) {
	for {
		select {
		case ev := <-s.own:
			s.enc.Encode(ev)
		case seq := <-s.again:
			s.enc.Resume(seq)
		case <-quit:
			for len(s.own) > 0 {
				s.enc.Encode(<-s.own)
			}
			return
		}
	}
}

// take acts on a request, or puts it behind those before it.
func (s *session) take(req Request) {
	forNow := s.now != nil && s.now.id == req.ID
	switch {
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
		if req.Size != (Size{}) { // first, for what is typed is typed on it
			s.now.sizes.Put(req.Size)
		}
		if len(req.Typed) > 0 && !s.now.typed.put(req.Typed) {
			s.log("typed input is lost: nothing reads it")
		}
	case req.Type == RequestResume:
		select {
		case <-s.again: // for a line that is cut too by now
		default:
		}
		s.again <- req.Seq
	}
}

// begin starts on the next request when nothing is being answered.
func (s *session) begin(ctx context.Context) {
	if s.now != nil || len(s.queue) == 0 {
		return
	}
	req := s.queue[0]
	s.queue = s.queue[1:]
	ctx, stop := context.WithCancelCause(ctx)
	now := &asked{id: req.ID, stop: stop, ended: make(chan struct{})}
	if req.Call != nil {
		now.typed, now.sizes = newInbox(), NewSizes()
		context.AfterFunc(ctx, now.typed.close)
	}
	if req.stopped {
		stop(ErrStopped)
	}
	s.now = now
	go func() {
		defer close(now.ended)
		defer stop(nil)
		emit := func(ev Event) {
			if ev.Start != nil {
				ev.Start.ID = req.ID
			}
			s.enc.Encode(ev)
		}
		if req.Plan != nil {
			s.Run(ctx, *req.Plan, emit)
		} else {
			s.call(ctx, *req.Call, now, emit)
		}
	}()
}

// readRequests sends each request line to out and closes it at the end of in.
func readRequests(in io.Reader, out chan<- Request, quit <-chan struct{}, log func(string)) {
	defer close(out)
	lines := bufio.NewScanner(in)
	lines.Buffer(make([]byte, 0, MaxLine), maxPlan)
	for lines.Scan() {
		if len(lines.Bytes()) == 0 { // ends what a line that was cut left unfinished
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
