package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/calico-probe/calico-probe/injector"
	"github.com/calico-probe/calico-probe/internal/alerts"
	"github.com/calico-probe/calico-probe/internal/cluster"
	"github.com/calico-probe/calico-probe/internal/examine"
	"github.com/calico-probe/calico-probe/internal/fleet"
	"github.com/calico-probe/calico-probe/internal/report"
	"github.com/calico-probe/calico-probe/probe"
)

// lookAtMany looks at all nodes once, for alerts about many: what the API says of each, and probes on a few of each
// zone of those that the alerts name.
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
	if refused, is := errors.AsType[*injector.PlacementError](err); is { // the API says enough to go on
		client.Note("no probe is put on any node: %v", refused)
		opts.Via = injector.MethodAPI
		err = fleetRun(ctx, client, opts, forms)
	}
	if err != nil {
		return alerts.Report{}, errors.New(cluster.Explain(err))
	}
	if came.Verdict == nil {
		return alerts.Report{}, errors.New("the run came to no verdict")
	}
	return alerts.Report{Verdict: came.Word, Says: manySay(came), JSON: whole.kept.Bytes(),
		Markdown: text.kept.Bytes()}, nil
}

// sinks are shown each event, one after the other.
type sinks []report.Sink

func (all sinks) Event(ev probe.Event) error {
	for _, s := range all {
		if err := s.Event(ev); err != nil {
			return err
		}
	}
	return nil
}

// manyVia is how many nodes are asked where one is by these access methods: by a pod on each where that is among them.
func manyVia(via string) string {
	if slices.Contains(strings.Split(via, ","), injector.MethodPod) {
		return injector.MethodPod
	}
	return injector.MethodAPI
}

// manySay is what a look at many nodes came to, in a line.
func manySay(came report.Fleet) string {
	if len(came.Groups) == 0 {
		return fmt.Sprintf("nothing is wrong with any of %d nodes", len(came.Nodes))
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

// maxTold bounds the nodes that are told of a look at many.
const maxTold = 100

// tellEach tells the node of a job, or each that its alerts name, by an event of its own; false = none was told, as
// each got too many of late, or none is named.
func tellEach(job alerts.Job, tell func(id, node string) (bool, error)) (told bool, err error) {
	if !job.Procedure.Many {
		return tell(job.ID, job.Node)
	}
	for i, node := range job.Nodes[:min(len(job.Nodes), maxTold)] {
		one, failed := tell(fmt.Sprintf("%s.%d", job.ID, i), node)
		told = told || one
		if failed != nil && err == nil {
			err = fmt.Errorf("%s: %w", node, failed)
		}
	}
	return told, err
}
