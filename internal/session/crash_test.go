package session

import (
	"bytes"
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/calico-probe/calico-probe/internal/cluster"
	"github.com/calico-probe/calico-probe/internal/prompt"
	"github.com/calico-probe/calico-probe/probe"
)

// TestCommandCrashes requires a panicking command to end with an error.
func TestCommandCrashes(t *testing.T) {
	t.Parallel()
	crashes := func(context.Context, *prompt.Call) error { panic("a blank field") }
	all := recovered([]*prompt.Command{{Name: "x", Run: crashes}})
	if err := all[0].Run(t.Context(), nil); !errors.As(err, new(*probe.Crash)) {
		t.Errorf("%v", err)
	}
}

// TestBackgroundRead requires a limit for reads in the background, so that the client does not retry and print into the
// prompt. The next command reports a crash.
func TestBackgroundRead(t *testing.T) {
	t.Parallel()
	var left time.Duration
	read := <-readInBackground(t.Context(), func(ctx context.Context) (*cluster.Snapshot, error) {
		end, _ := ctx.Deadline()
		left = time.Until(end)
		return nil, errors.New("unreachable")
	})
	if left <= 0 || left > aheadLimit || read != (readAhead{}) {
		t.Errorf("%v left, %+v", left, read)
	}
	ahead := readInBackground(t.Context(), func(context.Context) (*cluster.Snapshot, error) { panic("boom") })
	var said bytes.Buffer
	s := &nodeSession{client: testClient(&said), reader: &cluster.Client{}, ahead: ahead}
	s.snap = &cluster.Snapshot{Read: time.Now()}
	for began := time.Now(); len(ahead) == 0 && time.Since(began) < 10*time.Second; time.Sleep(time.Millisecond) {
	}
	if _, _, err := s.Snapshot(t.Context()); err != nil || !strings.Contains(said.String(), "in the background crashed: boom") {
		t.Errorf("%v: %q", err, said.String())
	}
}

// TestCompletionCrashes requires the next command to report a crash during completion, once.
func TestCompletionCrashes(t *testing.T) {
	t.Parallel()
	var said bytes.Buffer
	c := &Session{client: testClient(&said)}
	c.known.setCrash(errors.New("crashed: boom"))
	all := c.completed([]*prompt.Command{{Name: "x", Run: func(context.Context, *prompt.Call) error { return nil }}})
	for range 2 {
		if err := all[0].Run(t.Context(), nil); err != nil || strings.Count(said.String(), "completion with Tab crashed: boom") != 1 {
			t.Errorf("%v: %q", err, said.String())
		}
	}
}
