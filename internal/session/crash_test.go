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

// TestCommandCrashes wants a command that panics to end with an error.
func TestCommandCrashes(t *testing.T) {
	t.Parallel()
	crashes := func(context.Context, *prompt.Call) error { panic("a blank field") }
	all := recovered([]*prompt.Command{{Name: "x", Run: crashes}})
	if err := all[0].Run(t.Context(), nil); !errors.As(err, new(*probe.Crash)) {
		t.Errorf("%v", err)
	}
}

// TestBackgroundRead wants a read in the background to be bounded, so that the API is not tried a second time with a
// message into the prompt, and its crash to be named by the next command.
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

// TestCompletionCrashes wants the crash of what asks for Tab to be said once, by the next command.
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
