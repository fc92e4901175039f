package main

import (
	"bytes"
	"strings"
	"testing"

	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/cli-runtime/pkg/genericiooptions"
)

// TestNeighbourFlags rejects contradictions before any request.
func TestNeighbourFlags(t *testing.T) {
	t.Parallel()
	for args, says := range map[string]string{
		"--via outside --baselines 0":             "nor 0 with --via outside",
		"--baselines -1":                          "must not be negative",
		"--via outside --checks node-disk":        "--via outside cannot run node-disk",
		"--via local --checks neighbour-reach":    "--via local cannot run neighbour-reach",
		"--via api --checks neighbour-reach":      "--via api cannot run neighbour-reach",
		"--via outside --checks bgp-session,node": "cannot run",
	} {
		var errs bytes.Buffer
		a := &app{IOStreams: genericiooptions.IOStreams{Out: &errs, ErrOut: &errs},
			flags: genericclioptions.NewConfigFlags(true)}
		root := a.command()
		root.SetArgs(append([]string{"run", "--node", "x"}, strings.Fields(args)...))
		if err := root.ExecuteContext(t.Context()); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: %v", args, err)
		}
	}
}
