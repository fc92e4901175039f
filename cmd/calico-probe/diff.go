package main

import (
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/calico-probe/calico-probe/internal/examine"
	"github.com/calico-probe/calico-probe/internal/output"
	"github.com/calico-probe/calico-probe/internal/report"
	"github.com/calico-probe/calico-probe/internal/ui"
)

const diffExample = `  # what has changed since the node was well
  calico-probe diff good.ndjson bad.ndjson

  # two nodes of the session of an incident
  calico-probe diff incident.ndjson:worker-4 incident.ndjson:worker-3

  # a broken node and a good one, now
  calico-probe run --node worker-4 -o ndjson=good.ndjson
  calico-probe run --node worker-3 -o ndjson=bad.ndjson
  calico-probe diff good.ndjson bad.ndjson`

func (a *app) diff() *cobra.Command {
	out := &output.Set{}
	cmd := &cobra.Command{
		Use: "diff FILE[:NODE] FILE[:NODE]", Short: "Say how two saved runs differ", Example: diffExample,
		Long: `Compares two saved runs A and B ('run -o ndjson' or -o json; - for stdin). FILE:NODE is one
node of a file that has several, as transcripts do. In a session, 'diff NODE' compares
nodes as they are now.

Shows what B has worse or better than A, what only one of them answers, and which facts
changed. Answers about the same target are compared with each other; what is left, those
about the same kind of target, by the worst of them.

Exits with 3 when B is worse somewhere; with 5 when it is not, but is incomplete or does
not answer all that A does; else with 0.`,
		ValidArgsFunction: a.savedNodes,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) != 2 {
				return ui.BadUsage("diff takes two saved runs")
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			var sides [2]side
			for i, name := range args {
				var err error
				if sides[i], err = savedAs(name); err != nil {
					return err
				}
			}
			if err := out.Open(a.Out, output.Inputs(a.In, sides[0].file, sides[1].file)...); err != nil {
				return err
			}
			out.Until(cmd.Context())
			return out.Close(a.compare(out, sides))
		},
	}
	out.Flag(cmd, report.DiffFormats())
	return cmd
}

// compare reads both runs, shows what differs, and says by its error whether B is worse.
func (a *app) compare(out *output.Set, sides [2]side) error {
	var runs [2]report.Run
	for i, s := range sides {
		var err error
		if runs[i], err = a.loadOne(s); err != nil {
			return err
		}
	}
	out.Begin()
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
	runs := slices.DeleteFunc(slices.Clone(saved.Runs),
		func(run report.Run) bool { return node != "" && run.Node != node })
	switch {
	case len(saved.Runs) == 0:
		return report.Run{}, ui.BadUsage("%s is the transcript of a session in which no check was asked", source(file))
	case len(runs) == 0:
		return report.Run{}, ui.BadUsage("%s has nothing of %s, only of %s", source(file), node, nodesOf(saved.Runs))
	case len(runs) > 1:
		return report.Run{}, ui.BadUsage("%s has answers of %s: name one, as %s:%s", source(file), nodesOf(runs), file, runs[0].Node)
	}
	return runs[0], nil
}

// side is one of the runs that are compared; node is "" where the file has one only.
type side struct{ typed, file, node string }

// savedAs takes FILE or FILE:NODE apart. The file may be a pipe; a folder is none.
func savedAs(name string) (side, error) {
	isFile := func(name string) bool {
		info, err := os.Stat(name)
		return name == "-" || err == nil && !info.IsDir()
	}
	if i := strings.LastIndexByte(name, ':'); i > 0 && !isFile(name) && isFile(name[:i]) {
		return side{name, name[:i], name[i+1:]}, nil
	}
	if !isFile(name) {
		return side{}, ui.BadUsage("%q is no file: diff compares saved runs, as 'calico-probe run --node NODE -o ndjson=FILE' writes them", name)
	}
	return side{typed: name, file: name}, nil
}
