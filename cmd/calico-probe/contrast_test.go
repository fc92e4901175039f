package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/cli-runtime/pkg/genericiooptions"

	"github.com/calico-probe/calico-probe/diagnose"
	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/probe/checks"
	"github.com/calico-probe/calico-probe/report"
)

// TestContrasted wants peers asked what is bad here and nothing else, and only when
// something is.
func TestContrasted(t *testing.T) {
	t.Parallel()
	seen := diagnose.Findings{Node: "node-a"}
	add := func(node, check string, s probe.Status, facts probe.Facts) {
		seen.Add(probe.Event{Type: probe.EventResult, Node: node, Result: &probe.Result{Check: check, Status: s, Facts: facts}})
	}
	asked := func() string { return strings.Join(checkIDs(contrasted(seen, suite())), " ") }
	add("node-a", "node-disk", probe.OK, nil)
	add("node-a", "node-load", probe.Warn, nil)
	add("node-b", "node-clock", probe.Fail, nil)
	add("node-a", "init-stall", probe.Unknown, nil)
	if troubled(seen) {
		t.Error("a warning here and a fail elsewhere are no trouble")
	}
	if got := asked(); got != "bgp-session node-load neighbour-reach" {
		t.Errorf("asked %s", got)
	}
	add("node-a", "encap-proof", probe.Fail, nil)
	add("node-a", "node-ready", probe.Fail, nil)
	for _, peer := range []string{"10.0.0.2", "rubbish", "10.0.0.3", "10.0.0.2"} {
		add("node-a", "bgp-session", probe.Fail, probe.Facts{checks.FactPeer: peer})
	}
	if got := asked(); !troubled(seen) || got != "node-ready bgp-session node-load neighbour-reach" {
		t.Errorf("asked %s", got)
	}
	if got := preferred(seen); len(got) != 2 || got[1].String() != "10.0.0.3" {
		t.Errorf("preferred %v", got)
	}
	alone := diagnose.Findings{Node: "node-a"}
	alone.Add(probe.Event{Type: probe.EventResult, Node: "node-a", Result: &probe.Result{Check: probe.CheckPlaced, Status: probe.Unknown}})
	if !troubled(alone) {
		t.Error("a node nobody gets onto is trouble")
	}
}

// TestNeighbourFlags wants what contradicts itself refused before anything is asked.
func TestNeighbourFlags(t *testing.T) {
	t.Parallel()
	for args, says := range map[string]string{
		"--via neighbour --peers 0":                 "nor 0 with --via neighbour",
		"--peers -1":                                "must not be negative",
		"--via neighbour --checks node-disk":        "--via neighbour cannot ask node-disk",
		"--via local --checks neighbour-reach":      "--via local cannot ask neighbour-reach",
		"--via api --checks neighbour-reach":        "--via api cannot ask neighbour-reach",
		"--via neighbour --checks bgp-session,node": "cannot ask",
	} {
		var errs bytes.Buffer
		a := &app{IOStreams: genericiooptions.IOStreams{Out: &errs, ErrOut: &errs}, flags: genericclioptions.NewConfigFlags(true)}
		root := a.command()
		root.SetArgs(append([]string{"run", "--node", "x"}, strings.Fields(args)...))
		if err := root.ExecuteContext(t.Context()); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: %v", args, err)
		}
	}
}

// seenEvents is a report of what was emitted.
type seenEvents []probe.Event

func (s *seenEvents) Event(ev probe.Event) error { *s = append(*s, ev); return nil }

// TestNobodyLooked wants a question the user named to be unknown when nobody could be
// put anywhere to answer it, and not asked when there is nobody.
func TestNobodyLooked(t *testing.T) {
	t.Parallel()
	vain := []look{{node: "node-b", err: errors.New("no\x1b[2Jimage")}}
	for name, c := range map[string]struct {
		want   []string
		looks  []look
		status probe.Status
	}{
		"named":            {[]string{"neighbour-reach"}, vain, probe.Unknown},
		"not named":        {nil, vain, probe.Info},
		"nobody there":     {[]string{"neighbour-reach"}, nil, probe.Skip},
		"somebody's looks": {[]string{"neighbour-reach"}, []look{{node: "node-b"}}, probe.Info},
	} {
		var got seenEvents
		var errs bytes.Buffer
		o := &runOptions{app: &app{IOStreams: genericiooptions.IOStreams{ErrOut: &errs}}, want: c.want, sink: &got, tally: report.NewTally()}
		if err := o.tell(c.looks); err != nil || len(got) != 1 || got[0].Result.Status != c.status {
			t.Errorf("%s: %v %+v", name, err, got)
		}
		if strings.ContainsRune(errs.String(), '\x1b') {
			t.Errorf("%s: a node's words reach the terminal: %q", name, errs.String())
		}
	}
}

// TestALatePeerIsNotTheAPI wants a neighbour that is out of time to be told from an API server
// that does not answer.
func TestALatePeerIsNotTheAPI(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeoutCause(t.Context(), 0, lateError(contrastLimit))
	defer cancel()
	<-ctx.Done()
	for _, err := range []error{fmt.Errorf("reading: %w", ctx.Err()), fmt.Errorf("stopped: %w", context.Cause(ctx))} {
		if got := explainError(tardy(ctx, err)); strings.Contains(got, "API server") || !strings.Contains(got, contrastLimit.String()) {
			t.Error(got)
		}
	}
	if err := errors.New("no such image"); !errors.Is(tardy(ctx, err), err) || tardy(ctx, nil) != nil {
		t.Error("an error that says why is lost")
	}
	whole, cancel := context.WithTimeoutCause(t.Context(), 0, overError(time.Minute))
	defer cancel()
	<-whole.Done()
	if err := tardy(whole, whole.Err()); !errors.Is(err, context.DeadlineExceeded) {
		t.Error(err)
	}
}
