package probe

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/calico-probe/calico-probe/probe/must"
)

func request(t *testing.T, r Request) string {
	t.Helper()
	b := must.Get(json.Marshal(r))(t)
	return string(b) + "\n"
}

func events(t *testing.T, out *bytes.Buffer) []Event {
	t.Helper()
	var evs []Event
	d := NewDecoder(out)
	for {
		ev, err := d.Next()
		if err == io.EOF {
			return evs
		}
		if err != nil {
			t.Fatal(err)
		}
		if ev.Seq != int64(len(evs)) {
			t.Errorf("event %d has seq %d", len(evs), ev.Seq)
		}
		evs = append(evs, ev)
	}
}

func TestASessionAnswersManyPlansInOneStream(t *testing.T) {
	r := &Runner{Suite: []*Check{check("a-one", answers(OK))}, Host: &Host{}}
	plan := request(t, Request{Type: RequestPlan, Plan: &Plan{Checks: []string{"a-one"}}})
	var out bytes.Buffer
	must.Do(t, r.Serve(t.Context(), strings.NewReader(plan+"rubbish\n"+request(t, Request{Type: RequestBeat})+plan),
		&out))
	var kinds []string
	logs := 0
	for _, ev := range events(t, &out) {
		if ev.Type == EventLog {
			logs++
			continue
		}
		kinds = append(kinds, string(ev.Type))
	}
	if got := strings.Join(kinds, " "); got != "start result end start result end" || logs != 1 {
		t.Errorf("got %s and %d logs", got, logs)
	}
}

func TestALostClientStillGetsItsPlanAnswered(t *testing.T) {
	slow := check("slow-one", func(ctx context.Context, p *Pass) {
		select {
		case <-time.After(20 * time.Millisecond):
			p.Report(Found(OK, "done"))
		case <-ctx.Done():
		}
	})
	r := &Runner{Suite: []*Check{slow}, Host: &Host{}}
	var out bytes.Buffer
	in := request(t, Request{Type: RequestPlan, Plan: &Plan{Checks: []string{"slow-one"}}})
	must.Do(t, r.Serve(t.Context(), strings.NewReader(in), &out))
	if evs := events(t, &out); len(evs) != 3 || evs[1].Result.Status != OK {
		t.Errorf("got %v", evs)
	}
}

func TestServeEndsWithItsContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	in, feed := io.Pipe()
	defer feed.Close()
	r := &Runner{Host: &Host{}}
	ended := make(chan error, 1)
	go func() { ended <- r.Serve(ctx, in, io.Discard) }()
	cancel()
	select {
	case err := <-ended:
		if err != nil {
			t.Error(err)
		}
	case <-time.After(5 * time.Second):
		t.Fatal("Serve outlived its context")
	}
}

// talker is a tool that echoes its input until it is stopped or its input ends.
func talker(began chan<- string) *Tool {
	return &Tool{Name: "talk", Reads: true, Parse: func(args []string) (ToolFunc, error) {
		return func(_ context.Context, j *Job) Result {
			began <- strings.Join(args, " ")
			_, _ = io.Copy(j.Out, j.In)
			return Found(OK, "%s done", strings.Join(args, " "))
		}, nil
	}}
}

// TestCallsAreAnsweredOnce checks that a repeated request is answered once, that a request can be stopped before it
// begins, and that an unfinished line affects no other.
func TestCallsAreAnsweredOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := make(chan string, 10)
		r := &Runner{Host: &Host{}, Tools: []*Tool{talker(began)}}
		in, feed := io.Pipe()
		var out bytes.Buffer
		ended := make(chan error, 1)
		go func() { ended <- r.Serve(t.Context(), in, &out) }()
		send := func(text string) {
			if _, err := io.WriteString(feed, text); err != nil {
				t.Error(err)
			}
			synctest.Wait()
		}
		first := request(t, Request{Type: RequestCall, ID: 1, Call: &Call{Tool: "talk", Args: []string{"one"}}})
		second := request(t, Request{Type: RequestCall, ID: 2, Call: &Call{Tool: "talk", Args: []string{"two"}}})
		send(first)
		send(second)
		send(request(t, Request{Type: RequestStop, ID: 2}))
		send(second[:20]) // the connection is lost
		send("\n" + first + second)
		send(request(t, Request{Type: RequestTyped, ID: 1, Typed: []byte("hello\n")}))
		send(request(t, Request{Type: RequestTyped, ID: 7, Typed: []byte("nobody's\n")}))
		send(request(t, Request{Type: RequestStop, ID: 1}))
		send(request(t, Request{Type: RequestEnd}))
		if err := <-ended; err != nil {
			t.Error(err)
		}
		feed.Close()
		close(began)
		var ran []string
		for name := range began {
			ran = append(ran, name)
		}
		if got := strings.Join(ran, " "); got != "one two" && got != "one" { // two may not have begun
			t.Errorf("ran: %s", got)
		}
		said, stopped := "", 0
		for _, ev := range events(t, &out) {
			said += ev.Text
			if ev.End != nil && ev.End.Stopped {
				stopped++
			}
		}
		if !strings.HasPrefix(said, "request not understood") || !strings.HasSuffix(said, "hello\n") || stopped != 2 {
			t.Errorf("said %q, %d stopped", said, stopped)
		}
	})
}

// TestALostClientsCallsEnd checks that a call ends with its client, and none begins after.
func TestALostClientsCallsEnd(t *testing.T) {
	for name, silent := range map[string]bool{"stdin ends": false, "silence": true} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				began := make(chan string, 10)
				r := &Runner{Host: &Host{}, Tools: []*Tool{talker(began)}}
				in, feed := io.Pipe()
				ended := make(chan error, 1)
				ctx, cancel := context.WithTimeout(t.Context(), 10*Silence)
				defer cancel()
				go func() { ended <- r.Serve(ctx, in, io.Discard) }()
				start := time.Now()
				for id := range int64(2) {
					if _, err := io.WriteString(feed,
						request(t, Request{Type: RequestCall, ID: id + 1, Call: &Call{Tool: "talk"}})); err != nil {
						t.Error(err)
					}
				}
				synctest.Wait()
				if !silent {
					feed.Close()
				}
				if err := <-ended; err != nil {
					t.Error(err)
				}
				if took := time.Since(start); took > Silence+stopping {
					t.Errorf("it took %v", took)
				}
				if len(began) != 1 {
					t.Errorf("%d calls ran", len(began))
				}
				feed.Close()
			})
		})
	}
}

// TestResume checks that events can be sent again from any number on, as far back as they are kept, after an event with
// the first number.
func TestResume(t *testing.T) {
	var out bytes.Buffer
	e := NewEncoder(&out)
	e.Keep(400)
	for i := range 30 {
		e.Encode(Event{Type: EventOut, Text: strconv.Itoa(i)})
	}
	for asked, from := range map[int64]int64{0: 30 - int64(len(e.kept)), 29: 29, 30: 30, 99: 30} {
		out.Reset()
		e.Resume(asked)
		d := NewDecoder(&out)
		mark, err := d.Next()
		if err != nil || mark.Type != EventResume || mark.Seq != from {
			t.Errorf("from %d: %+v, %v, want %d", asked, mark, err, from)
		}
		for want := from; want < 30; want++ {
			if ev, err := d.Next(); err != nil || ev.Seq != want || ev.Text != strconv.Itoa(int(want)) {
				t.Errorf("from %d: %+v, %v, want event %d", asked, ev, err, want)
			}
		}
		if ev, err := d.Next(); err != io.EOF {
			t.Errorf("from %d: more: %+v, %v", asked, ev, err)
		}
	}
	if n := len(e.kept); n < 5 || n > 15 {
		t.Errorf("%d events kept in 400 bytes", n)
	}
}

// TestAnOutcomeOfOddBytesFits checks that no outcome of a tool can end the stream.
func TestAnOutcomeOfOddBytesFits(t *testing.T) {
	var out bytes.Buffer
	e := NewEncoder(&out)
	odd := Found(Fail, "%s", strings.Repeat("\x01", 5000))
	odd.Check, odd.Target = "talk", strings.Repeat("\x02", 5000)
	e.Encode(Event{Type: EventEnd, End: &End{Counts: Counts{}, Outcome: &odd}})
	if e.Err() != nil || out.Len() > MaxLine {
		t.Errorf("%d bytes, %v", out.Len(), e.Err())
	}
}

// stuck is an output that blocks until it is released.
type stuck struct {
	bytes.Buffer
	taken chan struct{}
}

func (s *stuck) Write(b []byte) (int, error) {
	<-s.taken
	return s.Buffer.Write(b)
}

// writes is a tool that writes a number of pieces, and then runs until it is stopped.
func writes(pieces int, seen chan<- error) *Tool {
	return &Tool{Name: "write", Parse: func([]string) (ToolFunc, error) {
		return func(ctx context.Context, j *Job) Result {
			for range pieces {
				j.Say("0123456789")
			}
			<-ctx.Done()
			seen <- context.Cause(ctx)
			return Found(OK, "written")
		}, nil
	}}
}

// TestNobodyTakesIt checks that a session with unread output continues while its client beats, and still receives
// requests.
func TestNobodyTakesIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		seen := make(chan error, 1)
		r := &Runner{Host: &Host{}, Tools: []*Tool{writes(10, seen)}}
		in, feed := io.Pipe()
		out := &stuck{taken: make(chan struct{})}
		ended := make(chan error, 1)
		go func() { ended <- r.Serve(t.Context(), in, out) }()
		send := func(req Request) {
			if _, err := io.WriteString(feed, request(t, req)); err != nil {
				t.Error(err)
			}
		}
		send(Request{Type: RequestCall, ID: 1, Call: &Call{Tool: "write"}})
		for range 120 { // ten minutes
			time.Sleep(BeatEvery)
			send(Request{Type: RequestBeat})
		}
		send(Request{Type: RequestStop, ID: 1})
		send(Request{Type: RequestResume, Seq: 0})
		send(Request{Type: RequestResume, Seq: 0})
		select {
		case why := <-seen:
			t.Errorf("it ended before anything was taken: %v", why)
		default:
		}
		close(out.taken)
		if why := <-seen; why != ErrStopped {
			t.Errorf("it ended because of %v", why)
		}
		send(Request{Type: RequestEnd})
		if err := <-ended; err != nil {
			t.Error(err)
		}
		feed.Close()
		text := out.String()
		if beats := strings.Count(text, `"beat"`); beats > maxOwn {
			t.Errorf("%d beats were kept for the reader", beats)
		}
		if !strings.Contains(text, `"stopped":true`) || strings.Contains(text, "ending") {
			t.Error(text)
		}
	})
}

// TestTheClientOfASlowWriteIsNotSilent blocks one write for longer than a client may be silent, while the client beats.
func TestTheClientOfASlowWriteIsNotSilent(t *testing.T) {
	for range 20 { // it was random
		synctest.Test(t, func(t *testing.T) {
			r := &Runner{Host: &Host{}}
			in, feed := io.Pipe()
			out := &stuck{taken: make(chan struct{})}
			ended := make(chan error, 1)
			go func() { ended <- r.Serve(t.Context(), in, out) }()
			time.AfterFunc(Silence+BeatEvery+time.Second, func() { close(out.taken) })
			for range 40 {
				must.Get(io.WriteString(feed, request(t, Request{Type: RequestBeat})))(t)
				time.Sleep(time.Second)
			}
			select {
			case err := <-ended:
				t.Errorf("it has ended: %v", err)
			default:
			}
			feed.Close()
			if err := <-ended; err != nil {
				t.Error(err)
			}
		})
	}
}

// TestTheLastCallLasts checks that the last call of a session may run as long as it needs, as it does inside pods.
func TestTheLastCallLasts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		slow := &Tool{Name: "slow", Parse: func([]string) (ToolFunc, error) {
			return func(ctx context.Context, _ *Job) Result {
				select {
				case <-time.After(10*Silence + time.Second):
					return Found(OK, "done")
				case <-ctx.Done():
					return Found(Unknown, "%v", context.Cause(ctx))
				}
			}, nil
		}}
		r := &Runner{Host: &Host{}, Tools: []*Tool{slow}}
		var out bytes.Buffer
		in := request(t, Request{Type: RequestCall, Call: &Call{Tool: "slow"}}) + request(t, Request{Type: RequestEnd})
		must.Do(t, r.Serve(t.Context(), strings.NewReader(in), &out))
		evs := events(t, &out)
		if last := evs[len(evs)-1]; last.End == nil || last.End.Outcome.Status != OK {
			t.Errorf("got %+v", last)
		}
	})
}

// TestPieces checks that output in small pieces arrives in few events and on time, and at once for an interactive tool.
func TestPieces(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const bits, size = 1000, 4
		tool := func(name string, reads bool) *Tool {
			return &Tool{Name: name, Reads: reads, Parse: func([]string) (ToolFunc, error) {
				return func(_ context.Context, j *Job) Result {
					j.Say("at once")
					time.Sleep(time.Second)
					for range bits {
						_, _ = io.WriteString(j.Out, "ä12")
					}
					panic("at the end")
				}, nil
			}}
		}
		r := &Runner{Host: &Host{}, Tools: []*Tool{tool("table", false), tool("keys", true)}}
		for name, most := range map[string]int{"table": 2 * bits * size / piece, "keys": bits + 1} {
			var said []string
			began := time.Now()
			by := &current{typed: newInbox(), sizes: NewSizes()}
			r.call(t.Context(), Call{Tool: name}, by, func(ev Event) {
				if ev.Type != EventOut {
					return
				}
				if len(said) == 0 && time.Since(began) > collecting {
					t.Errorf("%s: the first came after %v", name, time.Since(began))
				}
				if ev.Data != nil {
					t.Errorf("%s: a character was cut: %q", name, ev.Data)
				}
				said = append(said, ev.Text)
			})
			if got, want := strings.Join(said, ""), "at once\n"+strings.Repeat("ä12", bits); got != want ||
				len(said) > most {
				t.Errorf("%s: %d bytes of %d in %d events", name, len(got), len(want), len(said))
			}
			if name == "keys" && len(said) != most {
				t.Errorf("%s: %d events, want %d", name, len(said), most)
			}
		}
	})
}
