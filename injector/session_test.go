package injector

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/probe/facts"
	"github.com/calico-probe/calico-probe/probe/must"
)

// suite has one check with n answers.
func suite(n int) []*probe.Check {
	return []*probe.Check{{ID: "test-check", Run: func(_ context.Context, p *probe.Pass) {
		for range n {
			p.Report(probe.Found(probe.OK, "fine"))
		}
	}}}
}

var plan = probe.Request{Type: probe.RequestPlan, Plan: &probe.Plan{Checks: []string{"test-check"}}}

// drain reads a session to its end.
func drain(t *testing.T, s *Session) ([]probe.EventType, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	var got []probe.EventType
	for {
		ev, err := s.Next(ctx)
		if err != nil {
			return got, err
		}
		if ev.Seq != int64(len(got)) {
			t.Errorf("event %d has number %d", len(got), ev.Seq)
		}
		if got = append(got, ev.Type); ev.Type == probe.EventEnd {
			return got, nil
		}
	}
}

func TestInProcess(t *testing.T) {
	s, err := InProcess((&probe.Runner{Suite: suite(2), Host: &probe.Host{}}).Serve, "of a test")(t.Context(), Options{})
	if err != nil {
		t.Fatal(err)
	}
	for range 2 { // a session accepts several plans
		must.Get(s.Send(t.Context(), plan))(t)
		for {
			ev := must.Get(s.Next(t.Context()))(t)
			if ev.Type == probe.EventEnd {
				if ev.End.Results != 2 {
					t.Errorf("%+v", ev.End)
				}
				break
			}
		}
	}
	for range 2 {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}
	if _, err := s.Next(t.Context()); !errors.Is(err, io.EOF) {
		t.Errorf("after a good end: %v", err)
	}
}

// transcript is a probe's output for one plan with five results.
func transcript(t *testing.T) []byte {
	t.Helper()
	request := must.Get(json.Marshal(plan))(t)
	var out bytes.Buffer
	r := &probe.Runner{Suite: suite(5), Host: &probe.Host{}}
	must.Do(t, r.Serve(t.Context(), bytes.NewReader(append(request, '\n')), &out))
	return out.Bytes()
}

// broken is a session whose connection breaks after n bytes of the answer. Its log is readable after some attempts.
func broken(t *testing.T, whole []byte, n, tries int) *Session {
	t.Helper()
	s := &Session{remove: func(bool, bool) error { return nil }}
	line := func(_ context.Context, in io.Reader, out io.Writer) error {
		if _, err := bufio.NewReader(in).ReadBytes('\n'); err != nil {
			return err
		}
		if _, err := out.Write(whole[:n]); err != nil {
			return err
		}
		return errors.New("connection reset by peer")
	}
	s.start(t.Context(), line, func(context.Context) (io.ReadCloser, error) {
		if tries--; tries > 0 {
			return nil, errors.New("the API server is away")
		}
		return io.NopCloser(bytes.NewReader(whole)), nil
	})
	return s
}

// TestBrokenLine cuts the answer at every byte, and requires it to be complete and without duplicates.
func TestBrokenLine(t *testing.T) {
	whole := transcript(t)
	want := append(append([]probe.EventType{probe.EventStart},
		slices.Repeat([]probe.EventType{probe.EventResult}, 5)...), probe.EventEnd)
	for n := 0; n < len(whole); n += 7 {
		s := broken(t, whole, n, 1)
		must.Get(s.Send(t.Context(), plan))(t)
		got, err := drain(t, s)
		if err != nil || !slices.Equal(got, want) {
			t.Errorf("cut after %d bytes: %v, %v", n, got, err)
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}
}

func TestBrokenLineAndLog(t *testing.T) {
	whole := transcript(t)
	s := broken(t, whole, len(whole)/2, 2)
	defer s.Close()
	must.Get(s.Send(t.Context(), plan))(t)
	if _, err := drain(t, s); err != nil {
		t.Errorf("the log came at the second try: %v", err)
	}
}

// TestMissingLine removes one result from the answer, and requires it from the log. Without a log, the answer is
// incomplete.
func TestMissingLine(t *testing.T) {
	whole := transcript(t)
	lines := slices.Collect(bytes.Lines(whole))
	lines[3] = []byte("level=warning msg=\"something of the runtime's\"\n")
	holed := bytes.Join(lines, nil)
	line := func(_ context.Context, in io.Reader, out io.Writer) error {
		if _, err := bufio.NewReader(in).ReadBytes('\n'); err != nil {
			return err
		}
		_, err := out.Write(holed)
		return err
	}
	s := &Session{remove: func(bool, bool) error { return nil }}
	s.start(t.Context(), line, func(context.Context) (io.ReadCloser, error) {
		return io.NopCloser(bytes.NewReader(whole)), nil
	})
	must.Get(s.Send(t.Context(), plan))(t)
	if got, err := drain(t, s); err != nil || len(got) != 7 {
		t.Errorf("with a log: %v, %v", got, err)
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	s = &Session{remove: func(bool, bool) error { return nil }}
	s.start(t.Context(), line, nil)
	must.Get(s.Send(t.Context(), plan))(t)
	if got, err := drain(t, s); err == nil || errors.Is(err, io.EOF) || !strings.Contains(err.Error(), "missing") {
		t.Errorf("without a log: %v, %v", got, err)
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
}

// TestNoHandshake requires that a connection that never opens delays neither Send nor the clean-up.
func TestNoHandshake(t *testing.T) {
	removed := make(chan struct{})
	s := &Session{remove: func(bool, bool) error { close(removed); return nil }}
	s.start(t.Context(), func(ctx context.Context, _ io.Reader, _ io.Writer) error { <-ctx.Done(); return ctx.Err() }, nil)
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if _, err := s.Send(ctx, plan); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("sending: %v", err)
	}
	began := time.Now()
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	<-removed
	if took := time.Since(began); took > 5*ending {
		t.Errorf("closing took %v", took)
	}
}

// TestSeenToEnd requires that a probe counts as exited only if its connection closed on its own, not if it was cut.
func TestSeenToEnd(t *testing.T) {
	t.Parallel()
	whole := transcript(t)
	for name, ends := range map[string]bool{"ends": true, "hangs": false} {
		var told []bool
		s := &Session{remove: func(answered, ended bool) error { told = append(told, answered, ended); return nil }}
		s.start(t.Context(), func(ctx context.Context, in io.Reader, out io.Writer) error {
			r := bufio.NewReader(in)
			if _, err := r.ReadBytes('\n'); err != nil {
				return err
			}
			_, _ = out.Write(whole)
			if _, _ = io.Copy(io.Discard, r); !ends {
				<-ctx.Done()
			}
			return nil
		}, nil)
		must.Get(s.Send(t.Context(), plan))(t)
		for { // to the end of the answer, not of the connection
			ev := must.Get(s.Next(t.Context()))(t)
			if ev.Type == probe.EventEnd {
				break
			}
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
		if !slices.Equal(told, []bool{true, ends}) {
			t.Errorf("%s: answered and ended: %v", name, told)
		}
	}
}

// TestPatience requires that the first event may take as long as the user allows for a start, but not longer.
func TestPatience(t *testing.T) {
	for name, c := range map[string]struct {
		patience, takes time.Duration
		arrives         bool
	}{
		"fast":         {0, silenceOnce - 2*time.Second, true},
		"slow":         {0, 20 * time.Second, false},
		"allowed":      {40 * time.Second, 20 * time.Second, true},
		"not for ever": {40 * time.Second, 50 * time.Second, false},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				whole := transcript(t)
				s := &Session{first: c.patience, remove: func(bool, bool) error { return nil }}
				s.start(t.Context(), func(ctx context.Context, in io.Reader, out io.Writer) error {
					r := bufio.NewReader(in)
					if _, err := r.ReadBytes('\n'); err != nil {
						return err
					}
					select {
					case <-time.After(c.takes):
					case <-ctx.Done():
						return context.Cause(ctx)
					}
					_, _ = out.Write(whole)
					_, err := io.Copy(io.Discard, r)
					return err
				}, nil)
				must.Get(s.Send(t.Context(), plan))(t)
				if _, err := s.Next(t.Context()); (err == nil) != c.arrives {
					t.Errorf("the first event after %v: %v", c.takes, err)
				}
				if err := s.Close(); err != nil {
					t.Error(err)
				}
			})
		})
	}
}

// TestLost requires an incomplete answer to be an error, not an end.
func TestLost(t *testing.T) {
	whole := transcript(t)
	s := &Session{remove: func(bool, bool) error { return errors.New("still there") }}
	s.start(t.Context(), func(_ context.Context, in io.Reader, out io.Writer) error {
		if _, err := bufio.NewReader(in).ReadBytes('\n'); err != nil {
			return err
		}
		_, err := out.Write(append(bytes.Clone(whole[:len(whole)/2]), "\npanic: out of memory\n"...))
		return err
	}, nil)
	must.Get(s.Send(t.Context(), plan))(t)
	if _, err := drain(t, s); err == nil || !strings.Contains(err.Error(), "broke off") ||
		!strings.Contains(err.Error(), "out of memory") {
		t.Errorf("got %v", err)
	}
	if err := s.Close(); err == nil || err.Error() != "still there" {
		t.Errorf("what could not be removed is not said: %v", err)
	}
}

// TestNoRightToAttach distinguishes a missing right from an unreachable port.
func TestNoRightToAttach(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]facts.Reason{
		`unable to upgrade connection: pods "p" is forbidden: User "jane" cannot create resource "pods/attach" in API group "" in the namespace "ns"`: facts.ReasonRBAC,
		`pods "p" is forbidden: User "jane" cannot create resource "pods/attach" in API group "" in the namespace "ns"`:                               facts.ReasonRBAC,
		"unable to upgrade connection: error dialing backend: dial tcp 10.0.0.7:10250: connect: connection refused":                                   facts.ReasonAttach,
		"unable to upgrade connection: Authorization error (user=kube-apiserver-kubelet-client, verb=create, resource=nodes, subresource=proxy)":      facts.ReasonNoAuthorizer,
	} {
		s := &Session{}
		s.start(t.Context(), func(context.Context, io.Reader, io.Writer) error {
			return fmt.Errorf("attached to the probe: %w", errors.New(text))
		}, nil)
		_, err := s.Send(t.Context(), plan)
		if pe, ok := errors.AsType[*PlacementError](err); !ok || pe.Reason != want {
			t.Errorf("%s: %v", text, err)
		}
	}
}

func TestStopped(t *testing.T) {
	s := must.Get(InProcess((&probe.Runner{Host: &probe.Host{}}).Serve, "of a test")(t.Context(), Options{}))(t)
	defer s.Close()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := s.Next(ctx); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}

// TestOnlyWhatAProbeMaySay answers a plan with a fake probe. Events that only a client may write, and answers to no
// request, must be dropped.
func TestOnlyWhatAProbeMaySay(t *testing.T) {
	told := []string{
		`"type":"log","text":"hello","node":"worker-1"`,
		`"type":"result","result":{"check":"felix-live","status":"ok","saw":"before it was asked"}`,
		`"type":"end","end":{"results":0}`,
		"", // the plan arrives here
		`"type":"start","start":{"v":1},"node":"worker-1","for":"worker-1","way":"api","at":"2026-01-01T00:00:00Z"`,
		`"type":"typed","text":"sh -c 'rm -rf /var/lib/etcd'","node":"worker-1"`,
		`"type":"done","node":"worker-1"`,
		`"type":"asked","start":{"checks":["felix-live"]}`,
		`"type":"session","start":{}`,
		`"type":"contrast","text":"all others are bad"`,
		`"type":"cause","cause":{"id":"NONE"}`,
		`"type":"verdict","verdict":{"verdict":"healthy"}`,
		`"type":"later","text":"of another version"`,
		`"type":"log","text":"in words","result":{"check":"felix-live","status":"ok","saw":"beside"},"end":{"results":0}`,
		`"type":"result","result":{"check":"probe-placed","status":"fail","saw":"the client's"}`,
		`"type":"result","result":{"check":"probe-answered","status":"fail","saw":"the client's"}`,
		`"type":"result","result":{"check":"calico-pod","status":"fail","saw":"the API's","facts":{"pod":"prod/--all"}}`,
		`"type":"result","result":{"check":"node-swap","status":"ok","saw":"not asked"}`,
		`"type":"result","result":{"check":"felix-live","from":"kube-system/other","status":"ok","saw":"of a pod nobody asked from"}`,
		`"type":"out","text":"of a tool nobody asked for"`,
		`"type":"result","result":{"check":"test-check","status":"ok","saw":"alive\u001b[2J"},"node":"worker-1","verdict":{"verdict":"healthy"}`,
		`"type":"end","end":{"results":99,"counts":{"ok":99}},"for":"worker-1","cause":{"id":"NONE"}`,
	}
	s := &Session{remove: func(bool, bool) error { return nil }}
	s.start(t.Context(), func(_ context.Context, in io.Reader, out io.Writer) error {
		for i, said := range told {
			line := fmt.Sprintf("{\"seq\":%d,%s}\n", i, said)
			if said == "" {
				if _, err := bufio.NewReader(in).ReadBytes('\n'); err != nil {
					return err
				}
				line = fmt.Sprintf("{\"seq\":%d,\"type\":\"beat\"}\n", i)
			}
			if _, err := io.WriteString(out, line); err != nil {
				return err
			}
		}
		return nil
	}, nil)
	defer s.Close()
	for s.count() < 3 { // everything before the plan
		time.Sleep(time.Millisecond)
	}
	must.Get(s.Send(t.Context(), plan))(t)
	var got []string
	for {
		ev, err := s.Next(t.Context())
		if err != nil {
			break
		}
		ev.Seq = 0
		line, err := json.Marshal(ev)
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, string(line))
	}
	var want []string
	dropped := "13 events of the probe were dropped: not requested, or not a node's to report: typed, done, asked"
	for _, ev := range []probe.Event{
		{Type: probe.EventLog, Text: "hello"},
		{Type: probe.EventStart, Start: &probe.Start{V: probe.Version, ID: 1, Checks: []string{"test-check"}}},
		{Type: probe.EventLog, Text: "in words"},
		{Type: probe.EventResult, Result: &probe.Result{Check: "test-check", Status: probe.OK, Saw: "alive?[2J"}},
		{
			Type: probe.EventResult, Result: &probe.Result{
				Check: probe.CheckAnswered, Status: probe.Unknown, Saw: dropped,
				Facts: probe.Facts{probe.FactReason: probe.ReasonUnrequested},
			},
		},
		{Type: probe.EventEnd, End: &probe.End{Results: 1, Counts: probe.Counts{probe.OK: 1}}},
	} {
		line := must.Get(json.Marshal(ev))(t)
		want = append(want, string(line))
	}
	if !slices.Equal(got, want) {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// says is a session with a fake probe, which answers a request by calling write.
func says(t *testing.T, write func(io.Writer) error) *Session {
	t.Helper()
	s := &Session{remove: func(bool, bool) error { return nil }}
	s.start(t.Context(), func(_ context.Context, in io.Reader, out io.Writer) error {
		if _, err := bufio.NewReader(in).ReadBytes('\n'); err != nil {
			return err
		}
		return write(out)
	}, nil)
	t.Cleanup(func() { _ = s.Close() })
	must.Get(s.Send(t.Context(), plan))(t)
	return s
}

// TestAFloodIsCut has a probe that sends without end: answers, unrequested events, an endless line, or repetitions. The
// session must give it up.
func TestAFloodIsCut(t *testing.T) {
	t.Parallel()
	const start = `{"seq":0,"type":"start","start":{"v":1}}` + "\n"
	for name, line := range map[string]func(i int) string{
		"answers": func(i int) string {
			return fmt.Sprintf(`{"seq":%d,"type":"result","result":{"check":"test-check","status":"ok","saw":"x"}}`+"\n", i)
		},
		"unasked": func(i int) string {
			return fmt.Sprintf(`{"seq":%d,"type":"result","result":{"check":"calico-pod","status":"ok","saw":"`+strings.Repeat("x", 3000)+`"}}`+"\n", i)
		},
		"noise":       func(int) string { return strings.Repeat("x", 1000) + "\n" },
		"no new line": func(int) string { return strings.Repeat("x", 1000) },
		"again": func(int) string {
			return strings.Replace(start, `{"v":1}`, `{"v":1,"run":"`+strings.Repeat("x", 3000)+`"}`, 1)
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := says(t, func(out io.Writer) error {
				_, err := io.WriteString(out, start)
				for i := 1; err == nil; i++ {
					_, err = io.WriteString(out, line(i))
				}
				return err
			})
			n := 0
			for {
				if _, err := s.Next(t.Context()); err != nil {
					if !errors.Is(err, probe.ErrTooMuch) {
						t.Error(err)
					}
					break
				}
				n++
			}
			if n > probe.MaxEvents {
				t.Errorf("%d events", n)
			}
			if s.Gone() == nil {
				t.Error("it goes on with the probe")
			}
		})
	}
}

// TestWaitingIsBounded requires that unread events wait in the probe, not in memory. The limit is in bytes, not only in
// events.
func TestWaitingIsBounded(t *testing.T) {
	t.Parallel()
	const facts = `{"seq":%d,"type":"result","result":{"check":"test-check","status":"ok","saw":"x","facts":{"list":[%s0]}}}` + "\n"
	many := strings.Repeat("0,", 1500)
	s := says(t, func(out io.Writer) error {
		_, err := io.WriteString(out, `{"seq":0,"type":"start","start":{"v":1}}`+"\n")
		for i := 1; err == nil && i < 90; i++ {
			_, err = fmt.Fprintf(out, facts, i, many)
		}
		if err == nil {
			_, err = io.WriteString(out, `{"seq":90,"type":"end","end":{"results":89}}`+"\n")
		}
		return err
	})
	full := func() bool { s.mu.Lock(); defer s.mu.Unlock(); return s.blocked }
	for began := time.Now(); !full(); time.Sleep(time.Millisecond) {
		if time.Since(began) > time.Minute {
			t.Fatalf("%d bytes wait, and the probe is still read", s.queued.Load())
		}
	}
	if held := s.queued.Load(); held < maxQueuedBytes || held > maxQueuedBytes+1<<20 {
		t.Errorf("%d bytes wait", held)
	}
	if got, err := drain(t, s); err != nil || len(got) != 91 {
		t.Errorf("%d events, %v", len(got), err)
	}
}
