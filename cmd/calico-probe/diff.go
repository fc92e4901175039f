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

const diffExample = `  # show what changed since the node was healthy
  calico-probe diff good.ndjson bad.ndjson

  # compare two nodes in an incident's session
  calico-probe diff incident.ndjson:worker-4 incident.ndjson:worker-3

  # compare a broken node with a healthy node, now
  calico-probe run --node worker-4 -o ndjson=good.ndjson
  calico-probe run --node worker-3 -o ndjson=bad.ndjson
  calico-probe diff good.ndjson bad.ndjson`

func (a *app) diff() *cobra.Command {
	out := &output.Set{}
	cmd := &cobra.Command{
		Use: "diff FILE[:NODE] FILE[:NODE]", Short: "Show how two saved runs differ", Example: diffExample,
		Long: `Compares two saved runs A and B (from 'run -o ndjson' or -o json; - is stdin). FILE:NODE
selects one node of a file with several nodes, such as a transcript. In a session, 'diff NODE'
compares the current state of two nodes.

Shows where B is worse or better than A, which answers only one run has, and which facts
changed. It compares answers about the same target. If the targets differ, it compares the
worst answers about the same kind of target.

Exits 3 if any result of B is worse. Exits 5 if no result is worse, but B is incomplete or
lacks answers that A has. Otherwise exits 0.`,
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

// compare reads both runs and shows the differences. The returned error has the exit code.
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
		return report.Run{}, ui.BadUsage("%s is the transcript of a session that did not run any checks", source(file))
	case len(runs) == 0:
		return report.Run{}, ui.BadUsage("%s has no run of %s, only of %s", source(file), node, nodesOf(saved.Runs))
	case len(runs) > 1:
		return report.Run{}, ui.BadUsage("%s has several nodes (%s): choose one, as in %s:%s", source(file), nodesOf(runs), file, runs[0].Node)
	}
	return runs[0], nil
}

// side is one of the two compared runs; node is "" if the file has only one node.
type side struct{ typed, file, node string }

// savedAs splits FILE:NODE. The file may be a pipe, but not a folder.
func savedAs(name string) (side, error) {
	isFile := func(name string) bool {
		info, err := os.Stat(name)
		return name == "-" || err == nil && !info.IsDir()
	}
	if i := strings.LastIndexByte(name, ':'); i > 0 && !isFile(name) && isFile(name[:i]) {
		return side{name, name[:i], name[i+1:]}, nil
	}
	if !isFile(name) {
		return side{}, ui.BadUsage("%q is not a file: diff compares saved runs; save a run with 'calico-probe run --node NODE -o ndjson=FILE'", name)
	}
	return side{typed: name, file: name}, nil
}
