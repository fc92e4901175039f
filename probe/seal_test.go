package probe

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"strings"
	"testing"

	"github.com/calico-probe/calico-probe/probe/must"
)

// saying is a runner with one tool, which prints its arguments, and can be entered.
func saying(all ...string) *Runner {
	r := &Runner{Host: &Host{}, Tools: []*Tool{{Name: "say", Reads: true, Parse: func([]string) (ToolFunc, error) {
		return func(_ context.Context, j *Job) Result {
			for _, text := range all {
				_, _ = io.WriteString(j.Out, text)
			}
			return Found(OK, "said")
		}, nil
	}}}}
	r.Enter = func(ctx context.Context, _ Target, req Request, emit func(Event)) error {
		if len(req.Call.Key) > 0 {
			emit(Event{Type: EventLog, Text: "a key is handed on"})
		}
		r.call(ctx, *req.Call, &current{}, emit)
		return nil
	}
	return r
}

// answered returns what a runner writes to a call, and what its client reads.
func answered(t *testing.T, r *Runner, c Call, open func(Event) (Event, error)) (raw, text string, outcome Result) {
	t.Helper()
	line := must.Get(json.Marshal(Request{Type: RequestCall, Call: &c}))(t)
	var out bytes.Buffer
	must.Do(t, r.Serve(t.Context(), bytes.NewReader(append(line, '\n')), &out))
	raw = out.String()
	for line := range strings.Lines(raw) {
		if len(line) > MaxLine {
			t.Errorf("a line of %d bytes", len(line))
		}
	}
	d := NewDecoder(&out)
	for {
		ev, err := d.Next()
		if err != nil {
			return raw, text, outcome
		}
		if ev, err = open(ev); err != nil {
			t.Error(err)
		}
		text += ev.Text + string(ev.Data)
		if ev.End != nil {
			outcome = *ev.End.Outcome
		}
	}
}

// TestSealed checks that no output of a tool is readable on the wire, which is the log of a container, and that its
// client can read all of it, also from inside a pod.
func TestSealed(t *testing.T) {
	t.Parallel()
	said := []string{"the password is hunter2\n", "\xff\x00hunter2", strings.Repeat("\x01", 5000), "grün"}
	for _, from := range []*Target{nil, {Kind: KindLocal, Name: "default/web"}} {
		c := Call{Tool: "say", From: from}
		raw, text, outcome := answered(t, saying(said...), c, func(ev Event) (Event, error) { return ev, nil })
		if !strings.Contains(raw, "hunter2") || text != strings.Join(said, "") || outcome.Status != OK {
			t.Errorf("without a key: %q, %+v", text, outcome)
		}
		seal := c.Sealed()
		raw, text, outcome = answered(t, saying(said...), c, seal.Open)
		if strings.Contains(raw, "hunter2") || strings.Contains(raw, `"text"`) || text != strings.Join(said, "") ||
			outcome.Status != OK {
			t.Errorf("sealed: %q, %+v\n%s", text, outcome, raw)
		}
		other := c
		if other.Sealed(); bytes.Equal(other.Key, c.Key) {
			t.Error("two calls have one key")
		}
		c.Key = c.Key[:5]
		if raw, text, outcome = answered(t, saying(said...), c, seal.Open); text != "" ||
			strings.Contains(raw, "hunter2") || outcome.Status != Unknown {
			t.Errorf("with what is no key: %q, %+v", text, outcome)
		}
	}
}

// TestSealBroken checks that a piece that cannot be opened is an error, and affects no other.
func TestSealBroken(t *testing.T) {
	t.Parallel()
	var c, other Call
	seal, wrong := c.Sealed(), other.Sealed()
	ev := seal.close(Event{Type: EventOut, Text: "x"})
	spoilt := ev
	spoilt.Data = append([]byte(nil), ev.Data...)
	spoilt.Data[len(spoilt.Data)-1] ^= 1
	for name, bad := range map[string]Event{"spoilt": spoilt, "another's": wrong.close(ev),
		"too short": {Type: EventOut, Data: []byte("x"), Sealed: true}} {
		if got, err := seal.Open(bad); err == nil || got.Text != "" || got.Data != nil {
			t.Errorf("%s: %+v", name, got)
		}
	}
	if got, err := seal.Open(ev); err != nil || got.Text != "x" || got.Sealed {
		t.Errorf("%+v, %v", got, err)
	}
}
