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
)

func request(t *testing.T, r Request) string {
	t.Helper()
	b, err := json.Marshal(r)
	if err != nil {
		t.Fatal(err)
	}
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
	if err := r.Serve(t.Context(), strings.NewReader(plan+"rubbish\n"+request(t, Request{Type: RequestBeat})+plan), &out); err != nil {
		t.Fatal(err)
	}
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
	if err := r.Serve(t.Context(), strings.NewReader(in), &out); err != nil {
		t.Fatal(err)
	}
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

// talker is a tool that writes what is typed until it is stopped or its input ends.
func talker(began chan<- string) *Tool {
	return &Tool{Name: "talk", Reads: true, Parse: func(args []string) (ToolFunc, error) {
		return func(_ context.Context, j *Job) Result {
			began <- strings.Join(args, " ")
			_, _ = io.Copy(j.Out, j.In)
			return Found(OK, "%s done", strings.Join(args, " "))
		}, nil
	}}
}

// TestCallsAreAnsweredOnce wants what is asked twice answered once, what is stopped
// before it begins stopped, and a line that was left unfinished to cost no other.
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
		send(second[:20]) // the line is cut
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
		if got := strings.Join(ran, " "); got != "one two" && got != "one" { // two may not even have begun
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

// TestALostClientsCallsEnd wants a call to end with its client, and none to begin after.
func TestALostClientsCallsEnd(t *testing.T) {
	for name, silent := range map[string]bool{"stdin ends": false, "silence": true} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				began := make(chan string, 10)
				r := &Runner{Host: &Host{}, Tools: []*Tool{talker(began)}}
				in, feed := io.Pipe()
				ended := make(chan error, 1)
				go func() { ended <- r.Serve(t.Context(), in, io.Discard) }()
				start := time.Now()
				for id := range int64(2) {
					if _, err := io.WriteString(feed, request(t, Request{Type: RequestCall, ID: id + 1, Call: &Call{Tool: "talk"}})); err != nil {
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

// TestResume wants what was said to be said again from any event on, as far back as is
// remembered, and the mark before it to tell where that begins.
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

// TestAnOutcomeOfOddBytesFits wants no tool's last words to end the stream.
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
