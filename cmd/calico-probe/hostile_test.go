package main

import (
	"bytes"
	"context"
	"io"
	"slices"
	"strings"
	"testing"

	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/shell"
)

// TestNoToolSteersTheTerminal wants nothing of what a node says to reach a terminal, or what
// is piped to one, that is not to be read.
func TestNoToolSteersTheTerminal(t *testing.T) {
	t.Parallel()
	for said, want := range map[string]string{
		"eth0\tup\r\nlo\tgrün\n":              "eth0\tup\nlo\tgrün\n",
		"\x1b]52;c;ZXZpbA==\x07":              "?]52;c;ZXZpbA==?",
		"\x1b[2J\x1b]0;title\x1b\\":           "?[2J?]0;title?\\",
		"\u009b2J \u202egnp.exe\u2066 \u200b": "?2J ?gnp.exe? ?",
		"fine\rforged":                        "fineforged",
		"\x9b2J\xc3":                          "\ufffd2J\ufffd",
		"\x00\x08\x7f":                        "???",
	} {
		s := seatOf(t, &probe.Tool{Name: "says", Parse: func([]string) (probe.ToolFunc, error) {
			return func(_ context.Context, j *probe.Job) probe.Result {
				_, _ = io.WriteString(j.Out, said+"\n") // and not Say, which cleans on the node
				return probe.Found(probe.OK, "done")
			}, nil
		}})
		var out bytes.Buffer
		c := &conversation{at: s}
		if err := c.useTool(t.Context(), &shell.Call{Out: &out}, probe.Call{Tool: "says"}); err != nil || out.String() != want+"\n" {
			t.Errorf("%q: got %q, %v, want %q", said, out.String(), err, want)
		}
		if got := string(lines([]byte(said))); strings.ContainsAny(got, "\x1b\x07\u009b\u202e\x00") {
			t.Errorf("on a terminal of a command: %q", got)
		}
	}
	if got := string(lines([]byte("10%\r20%\r\nx\b \b\n"))); got != "10%\r20%\r\nx\b \b\n" {
		t.Errorf("progress and what is typed wrong: %q", got)
	}
}

// TestACallAnswersNoPlan wants the answer to a tool to change nothing of what checks said.
func TestACallAnswersNoPlan(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		ev   probe.Event
		want bool
	}{
		{probe.Event{Type: probe.EventStart, Start: &probe.Start{Tool: "ping"}}, true},
		{probe.Event{Type: probe.EventOut, Text: "x"}, true},
		{probe.Event{Type: probe.EventLog, Text: "x"}, true},
		{probe.Event{Type: probe.EventEnd, End: &probe.End{Outcome: &probe.Result{}}}, true},
		{probe.Event{Type: probe.EventStart, Start: &probe.Start{Version: "0"}}, false},
		{probe.Event{Type: probe.EventResult, Result: &probe.Result{Check: "felix-live", Status: probe.OK}}, false},
		{probe.Event{Type: probe.EventEnd, End: &probe.End{}}, false},
	} {
		if got := ofCall(c.ev); got != c.want {
			t.Errorf("%+v: %v", c.ev, got)
		}
	}
}

// TestTabOffersNames of what a node says, and nothing that Enter would run as a command.
func TestTabOffersNames(t *testing.T) {
	t.Parallel()
	c := &conversation{at: seatOf(t, &probe.Tool{Name: "ps", Parse: func([]string) (probe.ToolFunc, error) {
		return func(_ context.Context, j *probe.Job) probe.Result {
			_, _ = io.WriteString(j.Out, "POD CONTAINER\nkube-system/a calico-node\nkube-system/b b|sh\n$(touch) x\n-f x\nweb\x1b[8m x\nc;d x\nkube-system/e\n")
			return probe.Found(probe.OK, "listed")
		}, nil
	}})}
	got := c.suggest(t.Context(), "logs", nil)
	if want := []string{"calico-node", "", "", "kube-system/a/calico-node"}; !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}

// TestCommandsDoNotWaitForTab has a node that takes its time over what Tab asks.
func TestCommandsDoNotWaitForTab(t *testing.T) {
	t.Parallel()
	asked, ended := make(chan struct{}), make(chan struct{})
	c := &conversation{at: seatOf(t,
		&probe.Tool{Name: "ps", Parse: func([]string) (probe.ToolFunc, error) {
			return func(ctx context.Context, j *probe.Job) probe.Result {
				close(asked)
				<-ctx.Done()
				close(ended)
				j.Say("a b")
				return probe.Found(probe.Unknown, "stopped")
			}, nil
		}},
		&probe.Tool{Name: "ping", Parse: func([]string) (probe.ToolFunc, error) {
			return func(_ context.Context, j *probe.Job) probe.Result {
				j.Say("answered")
				return probe.Found(probe.OK, "done")
			}, nil
		}})}
	if got := c.suggest(t.Context(), "logs", nil); len(got) > 0 {
		t.Errorf("%q", got)
	}
	<-asked
	var out bytes.Buffer
	ping := c.completed([]*shell.Command{{Name: "ping", Run: func(ctx context.Context, call *shell.Call) error {
		return c.useTool(ctx, call, probe.Call{Tool: "ping"})
	}}})[0]
	if err := ping.Run(t.Context(), &shell.Call{Out: &out}); err != nil || out.String() != "answered\n" {
		t.Errorf("%q, %v", out.String(), err)
	}
	<-ended // and not for its own time to be over
}
