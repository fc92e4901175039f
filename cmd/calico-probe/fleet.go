package main

import (
	"context"
	"errors"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/calico-probe/calico-probe/internal/diagnose"
	"github.com/calico-probe/calico-probe/internal/examine"
	"github.com/calico-probe/calico-probe/internal/fleet"
	"github.com/calico-probe/calico-probe/internal/output"
	"github.com/calico-probe/calico-probe/internal/report"
	"github.com/calico-probe/calico-probe/internal/ui"
)

// severalNodes are the flags of a run over several nodes.
type severalNodes struct {
	named    []string
	selector string
	all      bool
	resume   string // a file with an unfinished run
}

// choosing adds the flags that select nodes; --node may be repeated.
func (s *severalNodes) choosing(f *pflag.FlagSet) {
	f.Var((*nodesValue)(&s.named), "node", "the node to test, as NAME, node/NAME or an address; "+
		"separate several nodes with commas")
	f.StringVarP(&s.selector, "selector", "l", "", "test all nodes with these labels (same syntax as kubectl's -l)")
}

// flags adds the flags of choosing, --resume and --all-nodes.
func (s *severalNodes) flags(f *pflag.FlagSet) {
	s.choosing(f)
	f.StringVar(&s.resume, "resume", "", "resume an unfinished run over several nodes from its -o ndjson file; "+
		"nodes that already have a verdict are skipped")
	s.everywhere(f)
}

// everywhere adds --all-nodes.
func (s *severalNodes) everywhere(f *pflag.FlagSet) {
	f.BoolVarP(&s.all, "all-nodes", "A", false, "test all nodes in the cluster; add --via api to use only the API")
}

// resumed returns the run to resume; nil starts a new run.
func (s *severalNodes) resumed(a *app) (*report.Saved, error) {
	if s.resume == "" {
		return nil, nil
	}
	saved, err := a.load(s.resume)
	if err == nil && saved.Fleet == nil {
		err = ui.BadUsage("--resume %s: not a file that 'run -o ndjson' wrote for several nodes", s.resume)
	}
	return &saved, err
}

// isFleet reports whether the flags select several nodes.
func (s *severalNodes) isFleet() bool { return len(s.named) > 1 || s.selector != "" || s.all }

// nodesValue is the value of a repeatable --node.
type nodesValue []string

func (n *nodesValue) String() string { return "" }
func (n *nodesValue) Type() string   { return "string" }

func (n *nodesValue) Set(typed string) error {
	for name := range strings.SplitSeq(typed, ",") {
		if name == "" {
			return errors.New("a node name is missing")
		}
		*n = append(*n, nodeName(name))
	}
	return nil
}

// examineFleet starts one run over several nodes with the settings from the flags.
func (o *runFlags) examineFleet(cmd *cobra.Command, several *severalNodes, out *output.Set) error {
	if err := o.noContradiction(cmd); err != nil {
		return err
	}
	for _, flag := range []string{"ssh", "ssh-config"} {
		if cmd.Flags().Changed(flag) {
			return ui.BadUsage("--%s only works for a run over one node: leave it out, or name one node with --node", flag)
		}
	}
	client, err := o.client()
	if err != nil {
		return err
	}
	// The same rules apply to one node and to several nodes.
	if err := o.Validate(); err != nil {
		return err
	}
	if o.Causes, err = loadCauses(o.causesDir); err != nil {
		return err
	}
	before, err := several.resumed(o.app)
	if err != nil {
		return err
	}
	run, err := fleet.New(client, fleet.Options{
		Options: o.Options, Nodes: several.named, Select: several.selector, All: several.all, Resume: before,
	})
	if err != nil {
		return err
	}
	out.Fleet = true
	var inputs []string
	if before != nil {
		inputs = append(inputs, several.resume)
	}
	if err := out.Open(o.Out, output.Inputs(o.In, inputs...)...); err != nil {
		return err
	}
	ctx, cancel := o.Deadline(cmd.Context())
	defer cancel()
	out.Until(ctx)
	if run.Sink, err = out.Sink(); err != nil {
		return err
	}
	run.Show = o.watching(out, "nodes")
	err = run.Do(ctx)
	over, late := errors.AsType[examine.TimeoutError](context.Cause(ctx))
	if late && err != nil && !errors.As(err, new(ui.Exit)) {
		err = over
	}
	return out.Close(unfinishedFleet(out, run, err))
}

// unfinishedFleet marks a run without a verdict as unfinished in its output files. For one node, see unfinished.
func unfinishedFleet(out *output.Set, run *fleet.Run, came error) error {
	if came == nil || errors.As(came, new(ui.Exit)) || errors.Is(came, output.ErrAllBroken) {
		return came
	}
	run.Sink = out.FilesSink()
	_ = run.Unfinished(whyUnfinished(came)) // a file that fails reports it itself
	return came
}

// replayFleet shows a saved run over several nodes.
func replayFleet(saved report.Saved, out *output.Set, theirs []*diagnose.Rule) error {
	out.Fleet = true
	sink, err := out.Sink()
	if err != nil {
		return err
	}
	return fleet.Replay(saved, sink, theirs...)
}
