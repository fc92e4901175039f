package injector

import (
	"context"
	"fmt"
	"io"
	"runtime"
	"testing"

	"github.com/calico-probe/calico-probe/probe"
)

// TestResumeFlood has a probe that repeatedly reports lost answers and reads no requests. It must get one stop at a
// time.
func TestResumeFlood(t *testing.T) {
	const lines = 2000
	before := runtime.NumGoroutine()
	s := &Session{remove: func(bool, bool) error { return nil }}
	s.start(t.Context(), func(ctx context.Context, in io.Reader, out io.Writer) error {
		if _, err := in.Read(make([]byte, 1)); err != nil { // of the plan only
			return err
		}
		for i := range lines {
			if _, err := fmt.Fprintf(out, "{\"seq\":%d,\"type\":\"resume\"}\n", i+1); err != nil {
				return err
			}
		}
		<-ctx.Done()
		return ctx.Err()
	}, nil)
	go func() { // ends with the session: the plan is never read completely
		_, _ = s.Send(context.WithoutCancel(t.Context()), probe.Request{
			Type: probe.RequestPlan, Plan: &probe.Plan{Run: "r", Node: "n", Checks: []string{"kubelet"}},
		})
	}()
	for range lines {
		if _, err := s.Next(t.Context()); err == nil {
			t.Fatal("an answer that is lost was given")
		}
	}
	if more := runtime.NumGoroutine() - before; more > lines/10 {
		t.Errorf("%d goroutines after %d lines", more, lines)
	}
	_ = s.Close()
}
