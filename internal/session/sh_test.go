package session

import (
	"bytes"
	"context"
	"errors"
	"io"
	"testing"
	"testing/synctest"
	"time"

	"github.com/calico-probe/calico-probe/internal/prompt"
	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/probe/must"
)

// TestWayOut requires Enter ~ . to leave, however the input is split, and everything else to reach the shell.
func TestWayOut(t *testing.T) {
	t.Parallel()
	for typed, want := range map[string]struct {
		pass string
		left bool
	}{
		"~.":                {"", true},
		"ls\r~.":            {"ls\r", true},
		"ls\n~.more":        {"ls\n", true},
		"ls ~.\r":           {"ls ~.\r", false},
		"cd ~\r":            {"cd ~\r", false},
		"\r~/bin/x\r":       {"\r~/bin/x\r", false},
		"\r~~.\r":           {"\r~.\r", false},
		"\r~~\r~.":          {"\r~\r", true},
		"\r~\r~.":           {"\r~\r", true},
		"\r~x~.\x03":        {"\r~x~.\x03", false},
		"~":                 {"", false},
		"\x1b[A\r~\x1b[B\r": {"\x1b[A\r~\x1b[B\r", false},
	} {
		for size := 1; size <= len(typed); size++ {
			w := wayOut{atStart: true}
			var pass []byte
			left := false
			for at := 0; at < len(typed) && !left; at += size {
				var more []byte
				more, left = w.of([]byte(typed[at:min(at+size, len(typed))]))
				pass = append(pass, more...)
			}
			if string(pass) != want.pass || left != want.left {
				t.Errorf("%q in pieces of %d: %q, %v", typed, size, pass, left)
			}
		}
	}
}

// TestOtherScreen requires a terminal to leave its alternate screen only if it is on it, however the output is split,
// and that nothing is written after the terminal is returned.
func TestOtherScreen(t *testing.T) {
	t.Parallel()
	for text, there := range map[string]bool{
		"":                              false,
		"ls\r\n":                        false,
		"vi\r\n\x1b[?1049h\x1b[22;0;0t": true,
		"\x1b[?1049h...\x1b[?1049l$ ":   false,
		"\x1b[?47h":                     true,
		"\x1b[?1049h\x1b[?1049l\x1b[?1049h\x1b[?1000h": true,
		"[?1049h": false,
	} {
		for size := 1; size <= max(1, len(text)); size++ {
			for _, itself := range []bool{false, true} {
				var out bytes.Buffer
				shell := &rawTerminal{out: &out, cooked: func() {}, plain: func() {}, forget: func() {}}
				for at := 0; at < len(text); at += size {
					must.Get(io.WriteString(shell, text[at:min(at+size, len(text))]))(t)
				}
				shell.giveBack(itself)
				shell.giveBack(false)
				_, _ = io.WriteString(shell, "more")
				want := text
				if there && !itself {
					want += fromOther
				}
				if !itself {
					want += unmade
				}
				if out.String() != want {
					t.Errorf("%q in pieces of %d, by itself %v: %q", text, size, itself, out.String())
				}
			}
		}
	}
}

// TestWayOutOfADeadLine leaves although nothing reads the input.
func TestWayOutOfADeadLine(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		in, keys := io.Pipe()
		ctx, end := context.WithCancelCause(t.Context())
		k := &typed{more: make(chan struct{}, 1)}
		go k.read(ctx, in, func() {}, end)
		for range 5000 {
			_, _ = io.WriteString(keys, "yes yes yes\r")
		}
		_, _ = io.WriteString(keys, "~.")
		select {
		case <-ctx.Done():
		case <-time.After(time.Second):
		}
		if context.Cause(ctx) != errLeft {
			t.Error("it goes on")
		}
		if len(k.kept) != 5000*len("yes yes yes\r") {
			t.Errorf("%d bytes of what was typed are kept", len(k.kept))
		}
	})
}

// full accepts no data.
type full struct{}

func (full) Write([]byte) (int, error) { return 0, io.ErrShortWrite }

// TestShUnread requires a command on the node to end when its output is no longer read, and a shell without a terminal
// to be rejected before any request.
func TestShUnread(t *testing.T) {
	t.Parallel()
	asked := 0
	s := nodeWith(t, &probe.Tool{Name: "sh", Parse: func([]string) (probe.ToolFunc, error) {
		return func(ctx context.Context, j *probe.Job) probe.Result {
			for asked++; ctx.Err() == nil; time.Sleep(time.Millisecond) {
				j.Say("yes")
			}
			return probe.Found(probe.Unknown, "ended")
		}, nil
	}})
	c := &Session{client: s.client, at: s}
	err := c.sh(t.Context(), &prompt.Call{Args: []string{"-c", "yes"}, Out: full{}})
	if !errors.Is(err, io.ErrShortWrite) || s.session == nil || s.session.Gone() != nil {
		t.Errorf("%v", err)
	}
	err = c.sh(t.Context(), &prompt.Call{Out: full{}})
	if !errors.As(err, new(prompt.UsageError)) || asked != 1 {
		t.Errorf("%v, asked %d times", err, asked)
	}
}
