package main

import (
	"bytes"
	"context"
	"strings"
	"testing"

	"k8s.io/cli-runtime/pkg/genericiooptions"
)

// TestShellMistakes requires every mistake to be found before any request.
func TestShellMistakes(t *testing.T) {
	for want, c := range map[string]struct {
		args  []string
		stdin string
	}{
		"no node given":            {args: []string{"-c", "help"}},
		`did you mean "ping"`:      {args: []string{"--node", "a", "-c", "help; pnig"}},
		"ping takes":               {args: []string{"--node", "a"}, stdin: "help\nping\n"},
		"quote":                    {args: []string{"--node", "a"}, stdin: "ping 'x"},
		"--idle":                   {args: []string{"--node", "a", "--idle", "-1s"}},
		`unknown check "nonesuch"`: {args: []string{"--node", "a", "-c", "run nonesuch"}},
		"| needs a command":        {args: []string{"--node", "a", "-c", "| less"}},
		"no commands to run":       {args: []string{"--node", "a", "-c", " # nothing"}},
		"no commands to run: pass": {args: []string{"--node", "a"}},
		"commands to run: pass":    {args: []string{"--node", "a", "-c", ""}, stdin: "help\n"},
	} {
		var out, errs bytes.Buffer
		code := Run(context.Background(), genericiooptions.IOStreams{In: strings.NewReader(c.stdin), Out: &out,
			ErrOut: &errs}, append([]string{"shell", "--kubeconfig", "/nonexistent"}, c.args...))
		if code != 2 || out.Len() > 0 || !strings.Contains(errs.String(), want) {
			t.Errorf("%q: exit %d, %s%s, want %s", c.args, code, out.String(), errs.String(), want)
		}
	}
}
