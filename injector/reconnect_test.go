package injector

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/probe/must"
)

// container is a probe whose stdin and stdout outlive an attached client, as in a container.
type container struct {
	stdin *io.PipeWriter
	ended chan struct{}

	mu       sync.Mutex
	attached io.Writer // nil = no client is attached
	calls    []string  // the arguments of each call that was run
	cut      func() (up, down int)
	drop     func()    // cuts the current connection
	away     error     // why attach fails
	hole     time.Time // until then, packets are lost silently
	attaches int
}

// start runs a probe with two tools: 'count N' writes N numbered lines, 'stay' runs
// until it is stopped.
func start(t *testing.T) *container {
	t.Helper()
	in, stdin := io.Pipe()
	c := &container{stdin: stdin, ended: make(chan struct{}), cut: func() (int, int) { return -1, -1 }}
	// Each line is sent at once: a timer would wait for a lock, which stops the test clock.
	count := &probe.Tool{Name: "count", Reads: true, Parse: func(args []string) (probe.ToolFunc, error) {
		n, err := strconv.Atoi(args[0])
		return func(_ context.Context, j *probe.Job) probe.Result {
			c.mu.Lock()
			c.calls = append(c.calls, strings.Join(args, " "))
			c.mu.Unlock()
			for i := range n {
				j.Say("%s: %d", args[1], i)
			}
			return probe.Found(probe.OK, "counted %s", args[1])
		}, err
	}}
	stay := &probe.Tool{Name: "stay", Parse: func([]string) (probe.ToolFunc, error) {
		return func(ctx context.Context, j *probe.Job) probe.Result {
			j.Say("here")
			<-ctx.Done()
			j.Say("going")
			return probe.Found(probe.OK, "stopped")
		}, nil
	}}
	r := &probe.Runner{Host: &probe.Host{}, Tools: []*probe.Tool{count, stay}}
	go func() {
		defer close(c.ended)
		if err := r.Serve(t.Context(), in, c); err != nil {
			t.Error(err)
		}
		c.mu.Lock()
		c.away = errors.New("the container does not run")
		c.mu.Unlock()
		in.Close()
	}()
	return c
}

// Write is the container's stdout.
func (c *container) Write(b []byte) (int, error) {
	c.mu.Lock()
	to := c.attached
	c.mu.Unlock()
	if to != nil {
		_, _ = to.Write(b) // the runtime ignores its readers
	}
	return len(b), nil
}

// short passes this many bytes, -1 = all, and then closes the connection.
type short struct {
	io.Writer
	left int
	end  func()
}

func (s *short) Write(b []byte) (int, error) {
	if s.left < 0 || len(b) <= s.left {
		if s.left >= 0 {
			s.left -= len(b)
		}
		return s.Writer.Write(b)
	}
	n, _ := s.Writer.Write(b[:s.left]) // only the cut matters
	s.left = 0
	s.end()
	return n, errors.New("cut")
}

// swallow loses all data sent to a container.
type swallow struct{ *container }

func (s swallow) Write(b []byte) (int, error) {
	s.mu.Lock()
	lost := time.Now().Before(s.hole)
	s.mu.Unlock()
	if lost {
		return len(b), nil
	}
	return s.stdin.Write(b)
}

// through blocks until ctx ends while packets are lost.
func (c *container) through(ctx context.Context) error {
	c.mu.Lock()
	lost := time.Now().Before(c.hole)
	c.mu.Unlock()
	if lost {
		<-ctx.Done()
	}
	return ctx.Err()
}

// attach connects to the container, and cuts the connection as c.cut returns.
func (c *container) attach(ctx context.Context, in io.Reader, out io.Writer) error {
	if err := c.through(ctx); err != nil {
		return err
	}
	c.mu.Lock()
	away, cut := c.away, c.cut
	c.attaches++
	c.mu.Unlock()
	up, down := cut()
	if away != nil {
		return away
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	mine := &short{out, down, cancel}
	c.mu.Lock()
	c.attached, c.drop = mine, cancel
	c.mu.Unlock()
	go func() {
		_, _ = io.Copy(&short{swallow{c}, up, cancel}, in) // ends when in is closed
		cancel()
	}()
	select {
	case <-ctx.Done():
	case <-c.ended:
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.attached == mine {
		c.attached = nil
	}
	return errors.New("connection reset by peer")
}

// session opens a session with the container, and returns its notes.
func (c *container) session(t *testing.T) (s *Session, notes func() []string) {
	t.Helper()
	var mu sync.Mutex
	var said []string
	s = &Session{remove: func(bool, bool) error { return nil }, through: "a pipe"}
	gone := func(ctx context.Context) error {
		if c.through(ctx) != nil {
			return nil
		}
		select {
		case <-c.ended:
			return errors.New("it ended: Completed, exit code 0")
		default:
			return nil
		}
	}
	s.startKept(t.Context(), "node-a", c.attach, gone, func(text string) {
		mu.Lock()
		defer mu.Unlock()
		said = append(said, text)
	})
	return s, func() []string {
		mu.Lock()
		defer mu.Unlock()
		return append([]string(nil), said...)
	}
}

func call(tool string, args ...string) probe.Request {
	return probe.Request{Type: probe.RequestCall, Call: &probe.Call{Tool: tool, Args: args}}
}

// ask sends a request, and returns the output and the outcome.
func ask(t *testing.T, s *Session, r probe.Request) (string, *probe.End, error) {
	t.Helper()
	if _, err := s.Send(t.Context(), r); err != nil {
		return "", nil, err
	}
	var out bytes.Buffer
	for {
		ev, err := s.Next(t.Context())
		switch {
		case err != nil:
			return out.String(), nil, err
		case ev.Type == probe.EventOut:
			out.WriteString(ev.Text)
		case ev.Type == probe.EventEnd:
			return out.String(), ev.End, nil
		}
	}
}

// TestKeptLineCutAnywhere cuts the connection in both directions at every byte, repeatedly. Every call must run once,
// with complete and ordered output.
func TestKeptLineCutAnywhere(t *testing.T) {
	for seed := range uint64(40) {
		t.Run(strconv.FormatUint(seed, 10), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				random, cuts := rand.New(rand.NewPCG(seed, 5)), rand.New(rand.NewPCG(seed, 7))
				c := start(t)
				c.cut = func() (up, down int) {
					if c.attaches == 1 { // a connection that never opened is not reopened
						return -1, 200 + cuts.IntN(2000)
					}
					return cuts.IntN(600), cuts.IntN(3000)
				}
				s, notes := c.session(t)
				var want []string
				for i := range 20 {
					n, name := random.IntN(40), fmt.Sprintf("call-%d", i)
					want = append(want, fmt.Sprintf("%d %s", n, name))
					out, end, err := ask(t, s, call("count", strconv.Itoa(n), name))
					if err != nil {
						t.Fatalf("%s: %v\n%s", name, err, strings.Join(notes(), "\n"))
					}
					whole := ""
					for j := range n {
						whole += fmt.Sprintf("%s: %d\n", name, j)
					}
					if out != whole || end.Outcome == nil || end.Outcome.Saw != "counted "+name {
						t.Fatalf("%s: got %q (%+v), want %q", name, out, end.Outcome, whole)
					}
				}
				if err := s.Close(); err != nil {
					t.Error(err)
				}
				c.stdin.Close() // this ends the probe, even if the end request was lost
				<-c.ended
				if got, want := strings.Join(c.calls, ", "), strings.Join(want, ", "); got != want {
					t.Errorf("run: %s\nwant: %s", got, want)
				}
				if c.attaches < 3 || len(notes()) == 0 {
					t.Errorf("the connection was hardly ever cut: %d connections, %q", c.attaches, notes())
				}
			})
		})
	}
}

// sever cuts the current connection. away is why a new one fails meanwhile.
func (c *container) sever(away error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.away = away; c.drop != nil {
		c.drop()
	}
}

// TestKeptLineBackInTime requires that a ten-second outage loses nothing. Requests and stops during the outage take
// effect.
func TestKeptLineBackInTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := start(t)
		s, notes := c.session(t)
		if _, _, err := ask(t, s, call("count", "1", "before")); err != nil {
			t.Fatal(err)
		}
		c.sever(errors.New("connection refused"))
		time.Sleep(2 * time.Second)
		if !s.Lost() {
			t.Error("a connection that is lost passes for one")
		}
		if err := s.Type(t.Context(), 1, []byte("lost"), probe.Size{}); err == nil {
			t.Error("what was typed while the connection is lost passes for sent")
		}
		id := must.Get(s.Send(t.Context(), call("stay")))(t)
		must.Do(t, s.Stop(t.Context(), id))
		time.Sleep(8 * time.Second)
		c.sever(nil)
		var got []string
		for {
			ev := must.Get(s.Next(t.Context()))(t)
			got = append(got, strings.TrimSpace(ev.Text))
			if ev.Type == probe.EventEnd {
				if !ev.End.Stopped {
					t.Errorf("it was not stopped: %q", got)
				}
				break
			}
		}
		// An active session lasts indefinitely.
		time.Sleep(20 * time.Minute)
		if out, _, err := ask(t, s, call("count", "1", "after")); err != nil || out != "after: 0\n" {
			t.Errorf("afterwards: %q, %v", out, err)
		}
		n := notes()
		if len(n) != 2 || !strings.Contains(n[0], "on node-a is lost") || !strings.Contains(n[1], "is back after 1") {
			t.Errorf("said: %q", n)
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
		<-c.ended
	})
}

// TestKeptLineTooLong requires a probe that exited without its client to be reported as gone, without further waiting.
func TestKeptLineTooLong(t *testing.T) {
	for name, idle := range map[string]bool{"asked": false, "idle": true} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := start(t)
				s, notes := c.session(t)
				if _, _, err := ask(t, s, call("count", "1", "before")); err != nil {
					t.Fatal(err)
				}
				c.sever(errors.New("connection refused"))
				began := time.Now()
				if idle {
					<-s.done
				} else if _, _, err := ask(t, s, call("stay")); err == nil ||
					!strings.Contains(err.Error(), "it ended") && !strings.Contains(err.Error(), "it has exited") {
					t.Errorf("got %v", err)
				}
				if took := time.Since(began); took > 2*probe.Silence {
					t.Errorf("it took %v", took)
				}
				if err := s.Gone(); err == nil {
					t.Error("a probe that has ended passes for there")
				}
				if n := notes(); len(n) != 1 {
					t.Errorf("said: %q", n)
				}
				if _, _, err := ask(t, s, call("stay")); err == nil || errors.Is(err, io.EOF) {
					t.Errorf("asked once more: %v", err)
				}
				if err := s.Close(); err != nil {
					t.Error(err)
				}
			})
		})
	}
}

// TestKeptLineHalfOpen has a connection that is silent but never closed.
func TestKeptLineHalfOpen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := start(t)
		s, notes := c.session(t)
		if _, _, err := ask(t, s, call("count", "1", "before")); err != nil {
			t.Fatal(err)
		}
		c.mu.Lock()
		c.attached = io.Discard
		c.mu.Unlock()
		if out, _, err := ask(t, s, call("count", "2", "unheard")); err != nil || out != "unheard: 0\nunheard: 1\n" {
			t.Errorf("got %q, %v", out, err)
		}
		if n := notes(); len(n) != 1 || !strings.Contains(n[0], "no output from the probe") {
			t.Errorf("said: %q", n)
		}
		if len(c.calls) != 2 {
			t.Errorf("run: %v", c.calls)
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
		<-c.ended
	})
}

// TestKeptLineClosedWhileMade requires Close not to wait for a new connection.
func TestKeptLineClosedWhileMade(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := start(t)
		s, _ := c.session(t)
		if _, _, err := ask(t, s, call("count", "1", "before")); err != nil {
			t.Fatal(err)
		}
		deaf := make(chan struct{})
		c.mu.Lock()
		c.cut = func() (int, int) { <-deaf; return 0, 0 } // the next connection never answers
		c.mu.Unlock()
		c.sever(nil)
		time.Sleep(time.Second)
		began := time.Now()
		if err := s.Close(); err != nil {
			t.Error(err)
		}
		if took := time.Since(began); took > 5*ending {
			t.Errorf("closing took %v", took)
		}
		close(deaf)
		c.stdin.Close()
		<-c.ended
	})
}

// TestAbandoned requires that an abandoned or older answer never counts as the answer to the current request.
func TestAbandoned(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := start(t)
		s, _ := c.session(t)
		for _, give := range []func(){s.Abandon, func() {}} {
			must.Get(s.Send(t.Context(), call("stay")))(t)
			synctest.Wait()
			give()
			if out, end, err := ask(t, s, call("count", "1", "next")); err != nil || out != "next: 0\n" || end.Stopped {
				t.Errorf("got %q, %+v, %v", out, end, err)
			}
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
		<-c.ended
	})
}

// TestSlowReader reads each page for ten minutes. The output, the connection and the probe must survive.
func TestSlowReader(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const lines = 8 * maxQueued
		c := start(t)
		s, notes := c.session(t)
		must.Get(s.Send(t.Context(), call("count", strconv.Itoa(lines), strings.Repeat("long", 200))))(t)
		n, page := 0, 0
		for {
			if n >= page*maxQueued {
				page++
				time.Sleep(10 * time.Minute)
			}
			ev, err := s.Next(t.Context())
			if err != nil {
				t.Fatalf("after %d lines: %v %q", n, err, notes())
			}
			if n += strings.Count(ev.Text, "\n"); ev.Type == probe.EventEnd {
				break
			}
		}
		if n != lines || len(notes()) > 0 {
			t.Errorf("%d of %d lines, said: %q", n, lines, notes())
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
		<-c.ended
	})
}

// TestKeptLineBlackHole loses all packets for twenty seconds without an error: on the old connection, on new ones, and
// in reads of the pod.
func TestKeptLineBlackHole(t *testing.T) {
	for name, away := range map[string]time.Duration{"for a while": 20 * time.Second, "for good": time.Hour} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := start(t)
				s, notes := c.session(t)
				if _, _, err := ask(t, s, call("count", "1", "before")); err != nil {
					t.Fatal(err)
				}
				time.Sleep(12 * time.Second)
				began := time.Now()
				var early []string
				const noticed = silenceKept + 2*noticeAfter
				time.AfterFunc(noticed, func() { early = notes() })
				c.mu.Lock()
				c.attached, c.hole = io.Discard, began.Add(away)
				c.mu.Unlock()
				out, _, err := ask(t, s, call("count", "2", "unheard"))
				took, said := time.Since(began), notes()
				switch {
				case away < probe.Silence && (err != nil || out != "unheard: 0\nunheard: 1\n" || len(said) != 2):
					t.Errorf("got %q, %v: %q", out, err, said)
				case away > probe.Silence && (err == nil || len(said) != 1 || took > probe.Silence+2*silenceNew):
					t.Errorf("got %q, %v after %v: %q", out, err, took, said)
				}
				if len(early) != 1 || !strings.Contains(early[0], "is lost") {
					t.Errorf("said after %v: %q", noticed, early)
				}
				if err := s.Close(); err != nil {
					t.Error(err)
				}
				<-c.ended
			})
		})
	}
}

// TestKeptLineTooMuch requires that a call fails if its output during an outage exceeds the probe's buffer. The session
// and later calls must work.
func TestKeptLineTooMuch(t *testing.T) {
	const lines = 40_000
	for name, given := range map[string]bool{"wanted": false, "given up": true} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := start(t)
				s, notes := c.session(t)
				if _, _, err := ask(t, s, call("count", "1", "before")); err != nil {
					t.Fatal(err)
				}
				id, err := s.Send(t.Context(), call("stay"))
				if err != nil {
					t.Fatal(err)
				}
				synctest.Wait()
				c.sever(errors.New("connection refused"))
				time.Sleep(time.Second)
				much, err := json.Marshal(probe.Request{
					Type: probe.RequestCall, ID: id + 1,
					Call: &probe.Call{Tool: "count", Args: []string{strconv.Itoa(lines), strings.Repeat("long", 50)}},
				})
				if err != nil {
					t.Fatal(err)
				}
				must.Get(s.Send(t.Context(), call("count", strconv.Itoa(lines), strings.Repeat("long", 50))))(t)
				// It still arrives, as if the connection broke just after.
				stop := fmt.Sprintf(`{"type":"stop","id":%d}`, id)
				must.Get(c.stdin.Write([]byte("\n" + stop + "\n" + string(much) + "\n")))(t)
				time.Sleep(time.Second)
				if given {
					s.Abandon()
				}
				c.sever(nil)
				time.Sleep(10 * time.Second)
				if !given {
					for err == nil {
						var ev probe.Event
						if ev, err = s.Next(t.Context()); ev.Type == probe.EventEnd {
							t.Fatal("what lacks a part passes for whole")
						}
					}
					if !errors.Is(err, errMissing) {
						t.Errorf("got %v", err)
					}
				}
				if gone := s.Gone(); gone != nil {
					t.Fatalf("the probe is given up: %v", gone)
				}
				for range 2 {
					if out, _, err := ask(t, s, call("count", "1", "after")); err != nil || out != "after: 0\n" {
						t.Errorf("afterwards: %q, %v, %q", out, err, notes())
					}
				}
				if err := s.Close(); err != nil {
					t.Error(err)
				}
				<-c.ended
			})
		})
	}
}
