package main

import (
	"context"
	"errors"
	"maps"

	"github.com/calico-probe/calico-probe/injector"
	"github.com/calico-probe/calico-probe/internal/apierror"
	"github.com/calico-probe/calico-probe/internal/examine"
	"github.com/calico-probe/calico-probe/internal/fleet"
	"github.com/calico-probe/calico-probe/internal/report"
	"github.com/calico-probe/calico-probe/internal/runbook"
	"github.com/calico-probe/calico-probe/internal/ui"
)

// manyNodes returns the run options of a fleet step.
func manyNodes(one examine.Options, f runbook.Fleet) fleet.Options {
	one.Node, one.Via, one.FailOn = "", injector.MethodAPI, examine.FailOnFail
	if f.Via != "" {
		one.Via = f.Via
	}
	return fleet.Options{Options: one, Nodes: f.Names, Select: f.Selector, All: len(f.Names) == 0 && f.Selector == ""}
}

// together returns the checks of a fleet step.
func together(f runbook.Fleet) ([]string, error) {
	return manyNodes(examine.Options{Checks: f.Checks, Skip: f.Skip, Profile: f.Profile}, f).Picked()
}

// lookAt runs a fleet step, which is a run over many nodes.
func (o *runbookOptions) lookAt(ctx context.Context, f runbook.Fleet) (report.Fleet, error) {
	var out report.Fleet
	if injector.AccessOf(o.Via).Here() {
		return out, errors.New("--via local does not use the API, so it cannot find the other nodes")
	}
	opts := manyNodes(o.once(runbook.Run{Checks: f.Checks, Skip: f.Skip, Profile: f.Profile}), f)
	err := fleetRun(ctx, o.speaking(), opts, report.CollectFleet(&out))
	if errors.As(err, new(ui.UsageError)) {
		err = runbook.Mistake{Err: err}
	} else if err != nil {
		err = errors.New(apierror.Explain(err))
	}
	return out, err
}

// agree asks for consent before a runbook places probes on many nodes, counted over all steps.
func (o *runbookOptions) agree(ctx context.Context, r runbook.Run, nodes []string) error {
	if !o.once(r).Places() {
		return nil
	}
	all := maps.Clone(o.placed)
	if all == nil {
		all = map[string]bool{}
	}
	for _, n := range nodes {
		all[n] = true
	}
	err := o.client.Agree(ctx, len(all))
	if errors.As(err, new(ui.UsageError)) {
		return runbook.Mistake{Err: err}
	}
	if err == nil {
		o.placed = all
	}
	return err
}

// fleetRun starts one run over many nodes and waits for its verdict.
func fleetRun(ctx context.Context, client *examine.Client, opts fleet.Options, sink report.Sink) error {
	run, err := fleet.New(client, opts)
	if err != nil {
		return err
	}
	run.Sink = sink
	ctx, cancel := opts.Deadline(ctx)
	defer cancel()
	err = run.Do(ctx)
	var over examine.TimeoutError
	switch {
	case err == nil, errors.As(err, new(ui.Exit)):
		return nil
	case errors.As(context.Cause(ctx), &over):
		return over
	}
	return err
}
