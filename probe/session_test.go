package probe

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"strings"
	"testing"
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
