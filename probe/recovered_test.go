package probe

import (
	"bytes"
	"context"
	"errors"
	"io"
	"strings"
	"testing"
	"time"
	"unicode"

	"github.com/calico-probe/calico-probe/probe/must"
)

// TestRecovered checks that a panic becomes an error: bounded, on one line, with the place that panicked.
func TestRecovered(t *testing.T) {
	t.Parallel()
	own := errors.New("its own")
	if err := Recovered(func() error { return own }); err != own {
		t.Errorf("%v", err)
	}
	crash := Recovered(func() error { return errors.New(strings.Fields(" ")[len(t.Name()):][0]) })
	if !strings.HasPrefix(crash.Error(), "crashed: runtime error: slice bounds out of range") ||
		!strings.Contains(crash.Error(), "probe/recovered_test.go:") {
		t.Errorf("%v", crash)
	}
	crash = Recovered(func() error { panic("\x1b]8;;http://evil.example\x1b\\\n" + strings.Repeat("x", 1<<20)) })
	if text := crash.Error(); len(text) > 300 || strings.ContainsFunc(text, unicode.IsControl) {
		t.Errorf("%d bytes: %.400q", len(text), text)
	}
	if c, is := errors.AsType[*Crash](crash); !is || !strings.Contains(c.Stack, "recovered_test.go") {
		t.Errorf("no stack in %T", crash)
	}
}

// TestWorkers checks that the panic of one of several goroutines reaches the goroutine that waits, once all have ended.
func TestWorkers(t *testing.T) {
	t.Parallel()
	ended := make([]bool, 9)
	var all Workers
	crash := Recovered(func() error {
		for i := range ended {
			all.Go(func() {
				defer func() { ended[i] = true }()
				if i == 4 {
					var inner Workers
					inner.Go(func() { panic("boom") })
					inner.Wait()
				}
			})
		}
		all.Wait()
		return nil
	})
	if crash == nil || !strings.HasPrefix(crash.Error(), "crashed: boom (probe/recovered_test.go:") {
		t.Errorf("%v", crash)
	}
	for i, is := range ended {
		if !is {
			t.Errorf("%d had not ended", i)
		}
	}
	if err := <-Async(func() error { panic("boom") }); err == nil || !strings.Contains(err.Error(), "boom") {
		t.Errorf("%v", err)
	}
}

// TestDetach checks that the crash of a detached function is reported. A crash of the report itself ends nothing.
func TestDetach(t *testing.T) {
	t.Parallel()
	reported := make(chan error, 2)
	Detach(func() error { panic("boom") }, func(err error) { reported <- err; panic("again") })
	if err := <-reported; !strings.Contains(err.Error(), "crashed: boom") {
		t.Errorf("%v", err)
	}
	Detach(func() error { reported <- nil; return nil }, func(err error) { reported <- err })
	if err := <-reported; err != nil {
		t.Errorf("%v", err)
	}
}

// crashingReader panics once it is read.
type crashingReader struct{}

func (crashingReader) Read([]byte) (int, error) { panic("boom") }

// crashingWriter panics at a beat or a log line.
type crashingWriter struct{ bytes.Buffer }

func (w *crashingWriter) Write(b []byte) (int, error) {
	if bytes.Contains(b, []byte("not understood")) {
		panic("boom")
	}
	return w.Buffer.Write(b)
}

// TestSessionCrashes checks that a session whose reader or writer crashes ends and reports why.
func TestSessionCrashes(t *testing.T) {
	t.Parallel()
	r := &Runner{Host: &Host{Root: "/"}}
	var out bytes.Buffer
	if err := r.Serve(t.Context(), crashingReader{}, &out); err != nil || !strings.Contains(out.String(), "reading requests: crashed: boom") {
		t.Errorf("%v\n%s", err, out.String())
	}
	in, keep := io.Pipe()
	defer keep.Close()
	Detach(func() error { _, err := io.WriteString(keep, "no request\n"); return err }, func(error) {})
	ended := Async(func() error { return r.Serve(t.Context(), in, &crashingWriter{}) })
	select {
	case err := <-ended:
		if err == nil || !strings.Contains(err.Error(), "crashed: boom") {
			t.Errorf("%v", err)
		}
	case <-time.After(10 * time.Second):
		t.Error("the session goes on without beats")
	}
}

// TestProbeCrashes crashes a check on its own goroutine, and then the probe itself on a plan. Missing answers are
// reported, and the next request is answered.
func TestProbeCrashes(t *testing.T) {
	t.Parallel()
	child := check("child-one", func(context.Context, *Pass) {
		var all Workers
		all.Go(func() { panic("boom") })
		all.Wait()
	})
	r := &Runner{Suite: []*Check{child, check("good-one", answers(OK))}, Tools: []*Tool{nil}, Host: &Host{Root: "/"}}
	var out bytes.Buffer
	in := `{"type":"plan","id":1,"plan":{"checks":["child-one"]}}` + "\n" + `{"type":"plan","id":2,"plan":{}}` + "\n" +
		`{"type":"plan","id":3,"plan":{"checks":["good-one"]}}` + "\n" + `{"type":"end"}` + "\n"
	must.Do(t, r.Serve(t.Context(), strings.NewReader(in), &out))
	for want, times := range map[string]int{
		`"saw":"the check crashed: boom (probe/recovered_test.go:`: 1, `"text":"the probe crashed: runtime error: `: 1,
		`"check":"good-one","status":"ok"`: 1, `"type":"end"`: 3,
	} {
		if strings.Count(out.String(), want) != times {
			t.Errorf("not %d times %s in\n%s", times, want, out.String())
		}
	}
}
