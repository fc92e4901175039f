package session

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/calico-probe/calico-probe/internal/cluster"
	"github.com/calico-probe/calico-probe/internal/examine"
	"github.com/calico-probe/calico-probe/internal/prompt"
	"github.com/calico-probe/calico-probe/internal/subject/bgp"
	suiteapi "github.com/calico-probe/calico-probe/internal/subject/suite/api"
	"github.com/calico-probe/calico-probe/internal/ui"
	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/probe/must"
)

func TestPickedNode(t *testing.T) {
	t.Parallel()
	var nodes []suiteapi.Standing
	for i := range 1000 {
		nodes = append(nodes, suiteapi.Standing{Node: fmt.Sprintf("worker-%d", i), Status: probe.OK, Saw: "Ready for 1h"})
	}
	nodes[0].Status, nodes[0].Saw = probe.Fail, "has not been Ready for 5m"
	nodes = append(nodes, suiteapi.Standing{Node: "17"})
	for typed, want := range map[string][]string{
		"":         {"worker-0"},
		"3":        {"worker-2"}, // the number in the list
		"17":       {"17"},       // a name goes before a number
		"20":       {"worker-19"},
		"worker-1": {"worker-1"},
		"ker-99": {"worker-99", "worker-990", "worker-991", "worker-992", "worker-993", "worker-994", "worker-995",
			"worker-996", "worker-997", "worker-998", "worker-999"},
		"999":        {"worker-999"},
		"nobody":     nil,
		"0":          nil,
		"-1":         nil,
		"worker-999": {"worker-999"},
	} {
		var got []string
		for _, n := range chosen(nodes, typed) {
			got = append(got, n.Node)
		}
		if typed == "0" || typed == "-1" { // parts of many names
			if len(got) < 2 {
				t.Errorf("%q fits %q", typed, got)
			}
			continue
		}
		if strings.Join(got, " ") != strings.Join(want, " ") {
			t.Errorf("%q: got %q, want %q", typed, got, want)
		}
	}
	var out bytes.Buffer
	show(&out, nodes, nodes)
	for _, want := range []string{"1   worker-0   fail  has not been Ready for 5m\n", "20  worker-19  -     Ready for 1h\n", "and 981 more"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("%q is not in\n%s", want, out.String())
		}
	}
	if strings.Contains(out.String(), "worker-20") {
		t.Errorf("too many nodes are listed:\n%s", out.String())
	}
	if got := ui.Cut("größer als das", 6); got != "größe…" {
		t.Error(got)
	}
}

func TestExitCodeOfCommands(t *testing.T) {
	t.Parallel()
	pipe := func(code int) error { return prompt.PipeError{Command: "grep x", Code: code} }
	for _, c := range []struct {
		err  error
		want int
	}{
		{nil, 0},
		{errors.New("the line is gone"), 1},
		{prompt.Usagef("no such"), 2},
		{ui.BadUsage("no such node"), 2},
		{outcomeError{exit: ui.Exit(3), saw: "nobody answers"}, 3},
		{fmt.Errorf("asking: %w", ui.Exit(5)), 5},
		{pipe(1), 1},
		{pipe(127), 127},
		{errors.Join(ui.Exit(3), pipe(1)), 3},
		{errors.Join(ui.Exit(5), pipe(1)), 1},
	} {
		if got := codeOf(c.err); got != c.want {
			t.Errorf("%v: exit code %d, want %d", c.err, got, c.want)
		}
	}
	order := []int{0, 4, 5, 1, 2, 3}
	for i, a := range order {
		for _, b := range order[i:] {
			if examine.WorseExit(a, b) != b || examine.WorseExit(b, a) != b {
				t.Errorf("of %d and %d the worse is %d, want %d", a, b, examine.WorseExit(a, b), b)
			}
		}
	}
}

// TestReadOnce requires that an outcome in the tool's own output is not printed again, and that commas separate the
// names of checks.
func TestReadOnce(t *testing.T) {
	const wrote = "40 of 40 packets died in FORWARD at veth0: NETFILTER_DROP\n  counter grew by 40\n"
	for saw, want := range map[string]bool{
		"10.244.174.130: 40 of 40 packets died in FORWARD at veth0: NETFILTER_DROP": true,
		"40 of 40 packets died in FORWARD at veth0: NETFILTER_DROP":                 true,
		"10.244.174.130: 40 of 40 packets died":                                     false,
		"stopped before anything was known":                                         false,
		"":                                                                          false,
	} {
		if got := repeats(saw, wrote); got != want {
			t.Errorf("%q: %v", saw, got)
		}
	}
	var errs bytes.Buffer
	c := &Session{stderr: &errs}
	c.failed("drops x: ", outcomeError{exit: ui.Exit(3), saw: "x: 40 of 40", read: true})
	if errs.Len() > 0 {
		t.Errorf("said again: %s", errs.String())
	}
	c.failed("drops x: ", outcomeError{exit: ui.Exit(3), saw: "x: 40 of 40"})
	if !strings.Contains(errs.String(), "drops x: x: 40 of 40") {
		t.Errorf("not said: %s", errs.String())
	}
	if got := byComma([]string{"bgp,node-ready", "cni"}); !slices.Equal(got, []string{"bgp", "node-ready", "cni"}) {
		t.Error(got)
	}
	if err := checksNamed([]string{"bgp,node-ready"}); err != nil {
		t.Error(err)
	}
}

// TestSuggestions covers the completions that need no probe.
func TestSuggestions(t *testing.T) {
	t.Parallel()
	named := func(name, addr string) corev1.Node {
		n := corev1.Node{}
		n.Name = name
		n.Status.Addresses = []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: addr}}
		return n
	}
	nodes := []corev1.Node{named("node-a", "10.0.0.1"), named("node-b", "10.0.0.2")}
	c := &Session{at: &nodeSession{opts: examine.Options{Node: "node-a"}, snap: &cluster.Snapshot{Node: &nodes[0],
		Survey: cluster.Survey{Nodes: nodes}}}}
	commands := map[string]*prompt.Command{}
	for _, command := range c.completed(c.Commands()) {
		commands[command.Name] = command
	}
	for line, want := range map[string]string{
		"node":                         "node-b",
		"diff":                         "node-b",
		"diff with":                    "node-b",
		"run node-ready":               "node-lease",
		"ping":                         "10.0.0.2\tnode-b",
		"ping -c 3":                    "node-b",
		"route get":                    "10.0.0.2\tnode-b",
		"in default/web ping":          "10.0.0.2\tnode-b",
		"in default/web route get":     "10.0.0.2\tnode-b",
		"bird":                         "show",
		"bird -6 show":                 "protocols",
		"bird show route for":          "10.0.0.2\tnode-b",
		"dns":                          "kubernetes.default.svc.cluster.local",
		"node node-b":                  "",
		"exit":                         "",
		"links":                        "", // there is no probe to ask
		"route dev":                    "",
		"bird show protocols all BGP1": "",
	} {
		words := strings.Fields(line)
		got := commands[words[0]].Complete(t.Context(), words[1:])
		if want == "" && len(got) > 0 || want != "" && !slices.Contains(got, want) {
			t.Errorf("%s: got %q, want %q", line, got, want)
		}
	}
}

// TestShellKnowsNodes requires a tool to get the InternalIP of a named node, also with a port and in a script, and of
// no other word.
func TestShellKnowsNodes(t *testing.T) {
	t.Parallel()
	s := nodeWith(t, &probe.Tool{Name: "hosts", Parse: func([]string) (probe.ToolFunc, error) {
		return func(_ context.Context, j *probe.Job) probe.Result {
			j.Say("%v", j.Hosts)
			return probe.Found(probe.OK, "done")
		}, nil
	}})
	node := corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "node-b"}}
	for _, addr := range []string{"10.0.0.2", "fd00::2"} {
		node.Status.Addresses = append(node.Status.Addresses, corev1.NodeAddress{Type: corev1.NodeInternalIP, Address: addr})
	}
	s.snap = &cluster.Snapshot{Node: &node, Survey: cluster.Survey{Nodes: []corev1.Node{node}}}
	for args, want := range map[string]string{
		"-c 1 node-b": "map[node-b:[10.0.0.2 fd00::2]]\n",
		"node-b:179":  "map[node-b:[10.0.0.2 fd00::2]]\n",
		"node-bb":     "map[]\n",
		"10.0.0.2":    "map[]\n",
	} {
		var out bytes.Buffer
		err := (&Session{at: s}).useTool(t.Context(), &prompt.Call{Out: &out}, probe.Call{Tool: "hosts",
			Args: strings.Fields(args)})
		if err != nil || out.String() != want {
			t.Errorf("%s: %q, %v, want %q", args, out.String(), err, want)
		}
	}
}

// TestOutcomeOnce requires that a bad outcome on stdout is not repeated on stderr, unless stdout went into a pipe.
func TestOutcomeOnce(t *testing.T) {
	t.Parallel()
	s := nodeWith(t, &probe.Tool{Name: "lost", Parse: func([]string) (probe.ToolFunc, error) {
		return func(_ context.Context, j *probe.Job) probe.Result {
			j.Say("40 of 40 packets are lost")
			return probe.Found(probe.Fail, "40 of 40 packets are lost")
		}, nil
	}})
	var out, errs, pipe bytes.Buffer
	c := &Session{at: s, stdout: &out, stderr: &errs}
	for _, to := range []*bytes.Buffer{&out, &pipe} {
		errs.Reset()
		err := c.useTool(t.Context(), &prompt.Call{Out: to}, probe.Call{Tool: "lost"})
		if c.failed("", err); (errs.Len() == 0) != (to == &out) || codeOf(err) != 3 {
			t.Errorf("wrote %q, said %q: %v", to, errs.String(), err)
		}
	}
}

// TestShellDiffTakesANode accepts the arguments with and without the word "with", which older versions needed.
func TestShellDiffTakesANode(t *testing.T) {
	t.Parallel()
	diff := (&Session{}).diffCommand()
	for args, want := range map[string]string{"node-b": "node-b", "with node-b": "node-b", "with": "with", "": "",
		"a b": "", "with a b": ""} {
		got, err := otherOf(strings.Fields(args))
		if got != want || (err == nil) != (want != "") || (diff.Check(strings.Fields(args)) == nil) != (want != "") {
			t.Errorf("%q: %q, %v", args, got, err)
		}
	}
}

// TestNoToolSteersTheTerminal requires that no control characters from a node reach a terminal, or a pipe to one.
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
		s := nodeWith(t, &probe.Tool{Name: "says", Parse: func([]string) (probe.ToolFunc, error) {
			return func(_ context.Context, j *probe.Job) probe.Result {
				_, _ = io.WriteString(j.Out, said+"\n") // and not Say, which cleans on the node
				return probe.Found(probe.OK, "done")
			}, nil
		}})
		var out bytes.Buffer
		c := &Session{at: s}
		if err := c.useTool(t.Context(), &prompt.Call{Out: &out}, probe.Call{Tool: "says"}); err != nil ||
			out.String() != want+"\n" {
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

// TestACallAnswersNoPlan requires that the answer to a tool does not change the results of checks.
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

// TestTabOffersNames offers a node's names, and nothing that Enter would run as a command.
func TestTabOffersNames(t *testing.T) {
	t.Parallel()
	c := &Session{at: nodeWith(t, &probe.Tool{Name: "ps", Parse: func([]string) (probe.ToolFunc, error) {
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

// TestCommandsDoNotWaitForTab uses a node that answers Tab's requests slowly.
func TestCommandsDoNotWaitForTab(t *testing.T) {
	t.Parallel()
	asked, ended := make(chan struct{}), make(chan struct{})
	c := &Session{at: nodeWith(t,
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

// TestPeersAreCleaned uses a node whose addresses contain control characters and newlines: its kubelet may write them,
// and the API server accepts them. Invalid addresses are not shown.
func TestPeersAreCleaned(t *testing.T) {
	t.Parallel()
	const said = "10.0.0.1\x1b[2J\x1b[32m\u202e\nforged\tyes"
	node := func(name string) corev1.Node {
		n := corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}
		n.Status.Addresses = []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: said}}
		return n
	}
	s := nodeWith(t)
	here := node("node-a")
	s.reader, s.snap = &cluster.Client{}, &cluster.Snapshot{Node: &here, Read: time.Now(),
		Survey: cluster.Survey{Nodes: []corev1.Node{here, node("node-b")}}}
	s.answers.Add(probe.Event{Type: probe.EventResult, Node: "node-a",
		Result: &probe.Result{Check: bgp.BGPSession.ID, Status: probe.OK}})
	var out bytes.Buffer
	must.Do(t, (&Session{at: s}).peersOf(t.Context(), &prompt.Call{Out: &out}))
	if strings.ContainsAny(out.String(), "\x1b\u202e") || strings.Contains(out.String(), "forged") ||
		!strings.Contains(out.String(), "node-b") {
		t.Errorf("%q", out.String())
	}
}
