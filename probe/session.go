package probe

import (
	"bufio"
	"context"
	"encoding/json"
	"io"
	"time"
)

// RequestType is what a line from the client asks.
type RequestType string

// The closed list of requests.
const (
	RequestPlan RequestType = "plan" // answer this plan
	RequestBeat RequestType = "beat" // the client is still there
	RequestEnd  RequestType = "end"  // end once what runs is answered
)

// Request is one line from the client to the probe.
type Request struct {
	Type RequestType `json:"type"`
	Plan *Plan       `json:"plan,omitempty"`
}

// Session timing. Beats go both ways so that either side notices a dead line.
const (
	BeatEvery = 5 * time.Second
	Silence   = 30 * time.Second // without a line from the client for so long, the probe ends
	maxPlan   = 16 << 20         // bytes of one request line: a mesh of 5,000 nodes is 4 MB
)

// Serve reads requests from in and answers them on out until the client ends
// the session, in is closed, the client is silent for 30 seconds, or ctx ends.
// A plan that runs when the client is lost is still answered to its end, for
// whoever reads the container's log. The error is that of writing, or nil.
func (r *Runner) Serve(ctx context.Context, in io.Reader, out io.Writer) error {
	enc := NewEncoder(out)
	quit := make(chan struct{})
	defer close(quit)
	requests := make(chan Request)
	go readRequests(in, requests, quit, func(text string) { enc.Encode(Event{Type: EventLog, Text: text}) })

	beat := time.NewTicker(BeatEvery)
	defer beat.Stop()
	silence := time.NewTimer(Silence)
	defer silence.Stop()
	var queue []Plan
	var running chan struct{} // closed when the plan that runs is answered
	ending, heard := false, false
	for {
		if running == nil && len(queue) > 0 {
			plan := queue[0]
			queue, running = queue[1:], make(chan struct{})
			go func(done chan struct{}) {
				defer close(done)
				r.Run(ctx, plan, enc.Encode)
			}(running)
		}
		if running == nil && (ending || ctx.Err() != nil) {
			return enc.Err()
		}
		select {
		case req, open := <-requests:
			silence.Reset(Silence)
			heard = true
			switch {
			case !open:
				requests, ending = nil, true
			case req.Type == RequestPlan && req.Plan != nil:
				queue = append(queue, *req.Plan)
			case req.Type == RequestEnd:
				ending = true
			}
		case <-running:
			running = nil
		case <-beat.C:
			// Nothing is said before the client is there: what is written before it has
			// attached would be missing from its copy.
			if heard {
				enc.Encode(Event{Type: EventBeat})
			}
		case <-silence.C:
			enc.Encode(Event{Type: EventLog, Text: "nothing heard from the client for " + Silence.String() + ", ending"})
			queue, requests, ending = nil, nil, true
		case <-ctx.Done():
			if running != nil {
				<-running // checks honour ctx and the runner's grace bounds the rest
				running = nil
			}
		}
	}
}

// readRequests sends each request line to out and closes it at the end of in.
func readRequests(in io.Reader, out chan<- Request, quit <-chan struct{}, log func(string)) {
	defer close(out)
	lines := bufio.NewScanner(in)
	lines.Buffer(make([]byte, 0, MaxLine), maxPlan)
	for lines.Scan() {
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
