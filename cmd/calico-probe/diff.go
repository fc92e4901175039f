package main

import (
	"context"
	"errors"
	"os"
	"slices"
	"strings"
	"sync"

	"github.com/spf13/cobra"
	"k8s.io/kubectl/pkg/cmd/util"

	"github.com/calico-probe/calico-probe/examine"
	"github.com/calico-probe/calico-probe/injector"
	"github.com/calico-probe/calico-probe/output"
	"github.com/calico-probe/calico-probe/report"
)

const diffExample = `  # what has changed since the node was well
  calico-probe diff good.ndjson bad.ndjson

  # two nodes of the session of an incident
  calico-probe diff incident.ndjson:worker-4 incident.ndjson:worker-3

  # a broken node beside a good one, both asked now
  calico-probe diff worker-3 worker-4 --profile quick`

func (a *app) diff(factory util.Factory) *cobra.Command {
	o, out := &runFlags{app: a}, &output.Set{}
	cmd := &cobra.Command{
		Use: "diff A B", Short: "Say what two runs, or two nodes, do not have alike", Example: diffExample,
		Long: `A and B are saved runs ('run -o ndjson' or -o json) or names of nodes, which are then
asked now, at the same time, with the flags given. What is a file is taken for one;
FILE:NODE is one node of a file that has several, as transcripts do.
Shows what B has worse or better than A, what only one of them answers, and which
facts changed. Answers about the same target belong together; else those about the
same kind of target, the worst standing for all.

Exits with 3 when B is worse somewhere, with 5 when it is not, as far as it goes: it
was cut, could not ask everything, or does not answer what A does. Else with 0.`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) != 2 {
				return badUsage("diff takes two saved runs, two nodes, or one of each")
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := o.noContradiction(cmd); err != nil {
				return err
			}
			if o.Via == injector.MethodLocal || o.Via == injector.MethodNeighbour {
				return badUsage("--via %s cannot ask two nodes side by side: save a run of each, and compare the files", o.Via)
			}
			sides := []side{savedAs(args[0]), savedAs(args[1])}
			if err := out.Open(a.Out, output.Inputs(a.In, sides[0].file, sides[1].file)...); err != nil {
				return err
			}
			out.Until(cmd.Context())
			return out.Close(o.compare(cmd.Context(), out, sides))
		},
	}
	o.asking(cmd)
	out.Flag(cmd, report.DiffFormats())
	a.connecting(cmd.Flags())
	o.completions(cmd, factory)
	return cmd
}

// compare has both runs, shows what differs, and says by its error whether B is worse.
func (o *runFlags) compare(ctx context.Context, out *output.Set, sides []side) error {
	var runs [2]report.Run
	var errs [2]error
	for i, s := range sides {
		if s.file != "" {
			runs[i], errs[i] = o.loadOne(s)
		}
	}
	if err := errors.Join(errs[:]...); err != nil {
		return err
	}
	client, err := o.client()
	if err != nil {
		return err
	}
	out.Begin()
	var all sync.WaitGroup
	for i, s := range sides {
		if s.file == "" {
			all.Go(func() { runs[i], errs[i] = examine.Record(ctx, client, o.of(s.typed)) })
		}
	}
	all.Wait()
	if err := errors.Join(errs[:]...); err != nil {
		return err
	}
	d := report.Diff(sides[0].typed, runs[0], sides[1].typed, runs[1])
	if err := out.Each(func(to *output.Place) error { return report.WriteDiff(to, to.Name, d) }); err != nil {
		return err
	}
	return examine.DiffError(d)
}

// loadOne reads a saved run, or one node of the transcript of a session.
func (a *app) loadOne(s side) (report.Run, error) {
	file, node := s.file, s.node
	saved, err := a.load(file)
	if err != nil {
		return report.Run{}, err
	}
	runs := slices.DeleteFunc(slices.Clone(saved.Runs), func(run report.Run) bool { return node != "" && run.Node != node })
	switch {
	case len(saved.Runs) == 0:
		return report.Run{}, badUsage("%s is the transcript of a session in which no check was asked", source(file))
	case len(runs) == 0:
		return report.Run{}, badUsage("%s has nothing of %s, only of %s", source(file), node, nodesOf(saved.Runs))
	case len(runs) > 1:
		return report.Run{}, badUsage("%s has answers of %s: name one, as %s:%s", source(file), nodesOf(runs), file, runs[0].Node)
	}
	return runs[0], nil
}

// side is one of what is compared: a saved run, or where file is "" the node typed.
type side struct{ typed, file, node string }

// savedAs tells whether an argument means a saved run rather than a node, and which: a
// pipe is one too, a folder that happens to have a node's name is not.
func savedAs(name string) side {
	isFile := func(name string) bool {
		info, err := os.Stat(name)
		return name == "-" || err == nil && !info.IsDir()
	}
	if i := strings.LastIndexByte(name, ':'); i > 0 && !isFile(name) && isFile(name[:i]) {
		return side{name, name[:i], name[i+1:]}
	}
	if isFile(name) {
		return side{typed: name, file: name}
	}
	return side{typed: name}
}

// of are the same options for one node. Each is what the other is compared with: no
// further node is asked.
func (o *runFlags) of(node string) examine.Options {
	own := o.Options
	own.Node, own.FailOn, own.Baselines = node, examine.FailOnFail, 0
	return own
}
