package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/cli-runtime/pkg/genericiooptions"

	"github.com/calico-probe/calico-probe/cluster"
	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/prompt"
	"github.com/calico-probe/calico-probe/ui"
)

func TestPickedNode(t *testing.T) {
	t.Parallel()
	var nodes []cluster.Standing
	for i := range 1000 {
		nodes = append(nodes, cluster.Standing{Node: fmt.Sprintf("worker-%d", i), Status: probe.OK, Saw: "Ready for 1h"})
	}
	nodes[0].Status, nodes[0].Saw = probe.Fail, "not Ready for 5m"
	nodes = append(nodes, cluster.Standing{Node: "17"})
	for typed, want := range map[string][]string{
		"":           {"worker-0"},
		"3":          {"worker-2"}, // the number in the list
		"17":         {"17"},       // a name goes before a number
		"20":         {"worker-19"},
		"worker-1":   {"worker-1"},
		"ker-99":     {"worker-99", "worker-990", "worker-991", "worker-992", "worker-993", "worker-994", "worker-995", "worker-996", "worker-997", "worker-998", "worker-999"},
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
	for _, want := range []string{"1   worker-0   fail  not Ready for 5m\n", "20  worker-19  -     Ready for 1h\n", "and 981 more"} {
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
		{badUsage("no such node"), 2},
		{outcomeError{exit(3), "nobody answers"}, 3},
		{fmt.Errorf("asking: %w", exit(5)), 5},
		{pipe(1), 1},
		{pipe(127), 127},
		{errors.Join(exit(3), pipe(1)), 3},
		{errors.Join(exit(5), pipe(1)), 1},
	} {
		if got := codeOf(c.err); got != c.want {
			t.Errorf("%v: exit code %d, want %d", c.err, got, c.want)
		}
	}
	order := []int{0, 4, 5, 1, 2, 3}
	for i, a := range order {
		for _, b := range order[i:] {
			if worse(a, b) != b || worse(b, a) != b {
				t.Errorf("of %d and %d the worse is %d, want %d", a, b, worse(a, b), b)
			}
		}
	}
}

// TestShellMistakes wants every mistake found before anything is asked of a cluster.
func TestShellMistakes(t *testing.T) {
	for want, c := range map[string]struct {
		args  []string
		stdin string
	}{
		"no node is named":           {args: []string{"-c", "help"}},
		`did you mean "ping"`:        {args: []string{"--node", "a", "-c", "help; pnig"}},
		"ping takes":                 {args: []string{"--node", "a"}, stdin: "help\nping\n"},
		"quote":                      {args: []string{"--node", "a"}, stdin: "ping 'x"},
		"--idle":                     {args: []string{"--node", "a", "--idle", "-1s"}},
		`unknown check "nonesuch"`:   {args: []string{"--node", "a", "-c", "run nonesuch"}},
		"| stands between a command": {args: []string{"--node", "a", "-c", "| less"}},
		"there is no command":        {args: []string{"--node", "a", "-c", " # nothing"}},
		"there is no command to run": {args: []string{"--node", "a"}},
		"command to run: give":       {args: []string{"--node", "a", "-c", ""}, stdin: "help\n"},
	} {
		var out, errs bytes.Buffer
		code := Run(context.Background(), genericiooptions.IOStreams{In: strings.NewReader(c.stdin), Out: &out, ErrOut: &errs}, append([]string{"shell", "--kubeconfig", "/nonexistent"}, c.args...))
		if code != 2 || out.Len() > 0 || !strings.Contains(errs.String(), want) {
			t.Errorf("%q: exit %d, %s%s, want %s", c.args, code, out.String(), errs.String(), want)
		}
	}
}

// TestSuggestions are those that need no probe.
func TestSuggestions(t *testing.T) {
	t.Parallel()
	named := func(name, addr string) corev1.Node {
		n := corev1.Node{}
		n.Name = name
		n.Status.Addresses = []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: addr}}
		return n
	}
	nodes := []corev1.Node{named("node-a", "10.0.0.1"), named("node-b", "10.0.0.2")}
	c := &conversation{at: &seat{o: &runOptions{node: "node-a"}, snap: &cluster.Snapshot{Node: &nodes[0], Nodes: nodes}}}
	commands := map[string]*prompt.Command{}
	for _, command := range c.completed(c.commandsOf()) {
		commands[command.Name] = command
	}
	for line, want := range map[string]string{
		"node":                         "node-b",
		"diff":                         "with",
		"diff with":                    "node-b",
		"run node-ready":               "node-lease",
		"explain":                      "node-lease",
		"ping":                         "10.0.0.2",
		"ping -c 3":                    "10.0.0.2",
		"route get":                    "10.0.0.2",
		"in default/web ping":          "10.0.0.2",
		"in default/web route get":     "10.0.0.2",
		"bird":                         "show",
		"bird -6 show":                 "protocols",
		"bird show route for":          "10.0.0.2",
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
