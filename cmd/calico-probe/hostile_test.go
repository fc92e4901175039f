package main

import (
	"bytes"
	"context"
	"errors"
	"io"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"github.com/calico-probe/calico-probe/cluster"
	"github.com/calico-probe/calico-probe/diagnose"
	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/probe/checks"
	"github.com/calico-probe/calico-probe/prompt"
	"github.com/calico-probe/calico-probe/report"
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
		if err := c.useTool(t.Context(), &prompt.Call{Out: &out}, probe.Call{Tool: "says"}); err != nil || out.String() != want+"\n" {
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
	ping := c.completed([]*prompt.Command{{Name: "ping", Run: func(ctx context.Context, call *prompt.Call) error {
		return c.useTool(ctx, call, probe.Call{Tool: "ping"})
	}}})[0]
	if err := ping.Run(t.Context(), &prompt.Call{Out: &out}); err != nil || out.String() != "answered\n" {
		t.Errorf("%q, %v", out.String(), err)
	}
	<-ended // and not for its own time to be over
}

// TestNothingForeignIsDecoded has a run saved by somebody whose every text steers a terminal
// or begins a line: nobody who decodes what is written of it has that, as 'jq -r' does.
func TestNothingForeignIsDecoded(t *testing.T) {
	t.Parallel()
	const said = "x\x1b[2J\u202e\nfail forged: all burns"
	bad := probe.Found(probe.Fail, said).On(said).Because(said).With(said, said).With("list", []any{said, map[string]any{said: said}}).With("texts", []string{said})
	bad.Check, bad.From = "bgp-session", said
	saved := saveRun(t, said[:1]+"\u009b", true, bad)
	steers := func(r rune) bool { return !unicode.IsGraphic(r) }
	var look func(format string, v any)
	look = func(format string, v any) {
		switch v := v.(type) {
		case string:
			if strings.ContainsFunc(v, steers) {
				t.Errorf("%s has %q", format, v)
			}
		case []any:
			for _, e := range v {
				look(format, e)
			}
		case map[string]any:
			for key, e := range v {
				look(format, key)
				look(format, e)
			}
		}
	}
	for _, format := range []string{"json", "ndjson", "yaml"} {
		exit, out, errs := call(t, "analyze", saved, "-o", format)
		if exit != 3 || !strings.Contains(out, "forged") {
			t.Fatalf("%s: exit %d %s%s", format, exit, out, errs)
		}
		texts := []string{out}
		if format == "ndjson" {
			texts = slices.Collect(strings.Lines(out))
		}
		for _, text := range texts {
			var tree any
			if err := yaml.Unmarshal([]byte(text), &tree); err != nil {
				t.Fatal(err)
			}
			look(format, tree)
		}
	}
	for _, output := range []string{
		`go-template={{range .results}}{{.status}} {{.check}}: {{.saw}} {{.target}} {{.from}} {{.facts}} {{range .lines}}{{.}}{{end}}{{"\n"}}{{end}}`, `jsonpath={range .results[*]}{.saw} {.target} {.lines[*]}{"\n"}{end}`,
	} {
		if _, out, _ := call(t, "analyze", saved, "-o", output); strings.Count(out, "\n") != 1 || strings.Contains(out, "\nfail") || !strings.Contains(out, "forged") {
			t.Errorf("%s: %q", output, out)
		}
	}
	// Live, it is the same before anything is concluded of it.
	o := &runOptions{node: "node-a", tally: report.NewTally(), seen: diagnose.Findings{Node: "node-a"}, sink: report.SinkFunc(func(ev probe.Event) error {
		look("live", ev.Result.Saw)
		look("live", ev.Result.Facts[probe.Fact("list")])
		return nil
	})}
	if err := errors.Join(o.emit("pod", probe.Event{Type: probe.EventResult, Result: &bad}), o.emitOf("node-b", "pod", probe.Event{Type: probe.EventResult, Result: &bad})); err != nil {
		t.Error(err)
	}
	look("live", o.seen.All[0].Saw)
	look("live", o.seen.All[1].Target)
}

// TestPeersAreCleaned has a node whose addresses steer a terminal and make a line: its kubelet
// may write them, and the API server takes them. What is no address is not shown.
func TestPeersAreCleaned(t *testing.T) {
	t.Parallel()
	const said = "10.0.0.1\x1b[2J\x1b[32m\u202e\nforged\tyes"
	node := func(name string) corev1.Node {
		n := corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}
		n.Status.Addresses = []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: said}}
		return n
	}
	s := seatOf(t)
	here := node("node-a")
	s.client, s.snap = &cluster.Client{}, &cluster.Snapshot{Node: &here, Nodes: []corev1.Node{here, node("node-b")}, Read: time.Now()}
	s.run.Add(probe.Event{Type: probe.EventResult, Node: "node-a", Result: &probe.Result{Check: checks.BGPSession.ID, Status: probe.OK}})
	var out bytes.Buffer
	if err := (&conversation{at: s}).peersOf(t.Context(), &prompt.Call{Out: &out}); err != nil {
		t.Fatal(err)
	}
	if strings.ContainsAny(out.String(), "\x1b\u202e") || strings.Contains(out.String(), "forged") || !strings.Contains(out.String(), "node-b") {
		t.Errorf("%q", out.String())
	}
}
