package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/calico-probe/calico-probe/injector"
	"github.com/calico-probe/calico-probe/internal/alerts"
	"github.com/calico-probe/calico-probe/internal/apierror"
	"github.com/calico-probe/calico-probe/internal/examine"
	"github.com/calico-probe/calico-probe/internal/fleet"
	"github.com/calico-probe/calico-probe/internal/report"
	"github.com/calico-probe/calico-probe/probe"
)

// lookAtMany starts one run for alerts about many nodes. It judges all nodes from the API. In each zone that has a node
// in the alerts, it runs probes on a few nodes.
func (o *serveOptions) lookAtMany(ctx context.Context, client *examine.Client, run examine.Options,
	job alerts.Job) (alerts.Report, error) {
	run.Node, run.Via = "", manyVia(run.Via)
	opts := fleet.Options{Options: run, All: true, Few: true, Among: job.Nodes}
	var whole, text bounded
	var came report.Fleet
	forms := sinks{report.CollectFleet(&came)}
	for format, w := range map[string]*bounded{"json": &whole, "markdown": &text} {
		f, err := report.Find(report.Formats(), format)
		if err != nil {
			return alerts.Report{}, err
		}
		sink, err := f.Sink(w, report.Options{Fleet: true})
		if err != nil {
			return alerts.Report{}, err
		}
		forms = append(forms, sink)
	}
	err := fleetRun(ctx, client, opts, forms)
	if refused, is := errors.AsType[*injector.PlacementError](err); is { // continue with the API alone
		client.Note("no probe was placed on any node: %v", refused)
		opts.Via = injector.MethodAPI
		err = fleetRun(ctx, client, opts, forms)
	}
	if err != nil {
		return alerts.Report{}, errors.New(apierror.Explain(err))
	}
	if came.Verdict == nil {
		return alerts.Report{}, errors.New("the run did not reach a verdict")
	}
	return alerts.Report{Verdict: came.Word, Says: manySay(came), JSON: whole.kept.Bytes(),
		Markdown: text.kept.Bytes()}, nil
}

// sinks passes each event to all sinks in turn.
type sinks []report.Sink

func (all sinks) Event(ev probe.Event) error {
	for _, s := range all {
		if err := s.Event(ev); err != nil {
			return err
		}
	}
	return nil
}

// manyVia returns the access method for many nodes: pod if the methods for one node include pod, otherwise api.
func manyVia(via string) string {
	if slices.Contains(strings.Split(via, ","), injector.MethodPod) {
		return injector.MethodPod
	}
	return injector.MethodAPI
}

// manySay summarizes a run over many nodes in one line.
func manySay(came report.Fleet) string {
	if len(came.Groups) == 0 {
		return fmt.Sprintf("all %d nodes are healthy", len(came.Nodes))
	}
	var says []string
	for _, g := range came.Groups[:min(len(came.Groups), 3)] {
		what := g.Cause
		if what == "" {
			what = "no known cause explains " + g.Check
		}
		text := fmt.Sprintf("%d of %d nodes: %s", len(g.Nodes), g.Of, probe.OneLine(what))
		if c := g.Common; c != nil {
			text += probe.OneLine(fmt.Sprintf(" (%s %s: %d of these, %d of the other %d)", c.Attribute, c.Value, c.Has,
				c.Others, c.OthersOf))
		}
		says = append(says, probe.Cut(text, 250))
	}
	if n := len(came.Groups) - len(says); n > 0 {
		says = append(says, fmt.Sprintf("%d more groups", n))
	}
	return strings.Join(says, "; ")
}

// maxEvents is the maximum number of nodes that get an event about a run over many nodes.
const maxEvents = 100

// tellEach writes an event on a job's node, or on each node in its alerts. It returns false if it did not write any
// event, because the alerts do not name a node or every node recently had too many events.
func tellEach(job alerts.Job, tell func(id, node string) (bool, error)) (written bool, err error) {
	if !job.Procedure.Many {
		return tell(job.ID, job.Node)
	}
	for i, node := range job.Nodes[:min(len(job.Nodes), maxEvents)] {
		one, failed := tell(fmt.Sprintf("%s.%d", job.ID, i), node)
		written = written || one
		if failed != nil && err == nil {
			err = fmt.Errorf("%s: %w", node, failed)
		}
	}
	return written, err
}
