package main

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/calico-probe/calico-probe/internal/diagnose"
	"github.com/calico-probe/calico-probe/internal/examine"
	"github.com/calico-probe/calico-probe/internal/output"
	"github.com/calico-probe/calico-probe/internal/report"
	"github.com/calico-probe/calico-probe/internal/ui"
	"github.com/calico-probe/calico-probe/probe"
)

const analyzeExample = `  # in the morning, analyze a run saved at night
  calico-probe run --node worker-3 -o ndjson > night.ndjson
  calico-probe analyze night.ndjson

  # compare the runs of two nodes from the same night
  calico-probe analyze worker-3.json worker-4.json -o wide

  # analyze the session of an incident: each node's last answers, then the commands as a timeline
  calico-probe analyze incident.ndjson
  calico-probe analyze incident.ndjson --node worker-3 -o json
  calico-probe analyze --typed incident.ndjson`

func (a *app) analyze() *cobra.Command {
	var node, causes string
	out := &output.Set{Family: families()}
	var typed bool
	cmd := &cobra.Command{
		Use: "analyze FILE...|-", Short: "Name the causes in saved runs, without a cluster", Example: analyzeExample,
		Long: `Reads saved runs and prints their reports again. It accepts files from 'run -o ndjson' and
'run -o json', and from the shell's 'save' and --transcript. Use - for stdin. From a transcript,
it uses the last answer to each check on each node. It recomputes the causes with this version's
rules and reports any differences from the saved causes. It prints a report for each file and
node, and compares the nodes with each other. --node prints only one node.

The exit code is that of the saved run. For several runs, it is the worst exit code: a fault is
worst, followed by incomplete and warnings. A truncated run is incomplete. If a file is not a
saved run, analyze exits 2.`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) == 0 {
				return ui.BadUsage("analyze takes saved run files, or - for stdin")
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			switch {
			case typed && cmd.Flags().Changed("output"):
				return ui.BadUsage("--typed prints a list for people and does not support -o; the transcript itself is NDJSON")
			case typed:
				return a.listTyped(args, node)
			}
			theirs, err := loadCauses(causes)
			if err != nil {
				return err
			}
			if err := out.Open(a.Out, output.Inputs(a.In, args...)...); err != nil {
				return err
			}
			out.Until(cmd.Context())
			return out.Close(a.analyzeFiles(args, node, out, theirs))
		},
	}
	cmd.Flags().BoolVar(&typed, "typed", false, "list a session transcript's commands with time, node and outcome, instead of reports")
	nodeFlag(cmd.Flags(), &node, "show only this node, but still compare it with the other nodes")
	causesFlag(cmd, &causes)
	out.Flag(cmd, report.Formats())
	return cmd
}

// savedRun is a run with the file that it was read from.
type savedRun struct {
	report.Run
	file string
}

func (a *app) analyzeFiles(names []string, node string, out *output.Set, theirs []*diagnose.Rule) error {
	all, last, err := a.loadRuns(names)
	switch {
	case err != nil:
		return err
	case last.Fleet != nil && node == "" && len(names) == 1:
		return replayFleet(last, out, theirs)
	}
	var runs []report.Run
	var shown []savedRun
	for _, run := range all {
		runs = append(runs, run.Run)
		if node == "" || run.Node == node {
			shown = append(shown, run)
		}
	}
	compared := runs
	if last.Fleet != nil { // the groups already compare the nodes
		compared = nil
	}
	single, several := out.SeveralReports()
	switch {
	case len(shown) == 0:
		return ui.BadUsage("no saved run of %s, only of %s", node, nodesOf(runs))
	case len(shown) == 1 || several:
	case !slices.ContainsFunc(shown, func(run savedRun) bool { return run.Node != shown[0].Node }):
		return ui.BadUsage("-o %s can hold only one run, but there are %d: analyze one file at a time, or use table or wide", single.Name, len(shown))
	default:
		return ui.BadUsage("-o %s can hold only one run, but there are %d: choose one of %s with --node, or use table or wide", single.Name, len(shown), nodesOf(runs))
	}
	worst := report.ExitHealthy
	for i, run := range shown {
		if i > 0 {
			out.Between()
		}
		code, err := a.analyzeRun(run, compared, out, theirs)
		if err != nil {
			return err
		}
		worst = examine.WorseExit(worst, int(code))
	}
	if worst != report.ExitHealthy {
		return ui.Exit(worst)
	}
	return nil
}

// loadRuns returns the runs of several files, and the unmodified content of the last file.
func (a *app) loadRuns(names []string) ([]savedRun, report.Saved, error) {
	var out []savedRun
	var saved report.Saved
	for _, name := range names {
		var err error
		saved, err = a.load(name)
		switch {
		case err != nil:
			return nil, saved, err
		case len(saved.Runs) == 0:
			return nil, saved, ui.BadUsage("%s is the transcript of a session that did not run any checks: 'calico-probe analyze --typed %s' lists its commands", source(name), asFile(name))
		}
		for _, run := range saved.Runs {
			out = append(out, savedRun{run, name})
		}
	}
	return out, saved, nil
}

// analyzeRun shows one run and uses the other nodes of all runs as baseline nodes. It reports where this version's
// causes differ from the saved causes.
func (a *app) analyzeRun(run savedRun, all []report.Run, out *output.Set, theirs []*diagnose.Rule) (ui.Exit, error) {
	sink, err := out.Sink()
	if err != nil {
		return 0, err
	}
	c, err := examine.Replay(run.Run, sink, theirs...)
	if err != nil {
		return 0, err
	}
	for _, other := range all {
		c.Seen.All = append(c.Seen.All, answersOf(other, run.Node)...)
	}
	err = c.Conclude()
	code, ok := errors.AsType[ui.Exit](err)
	if err != nil && !ok {
		return 0, err
	}
	if was, is := briefly(run.Causes), briefly(c.Causes); run.Verdict != nil && was != is {
		ui.Say(a.ErrOut, "%s: calico-probe %s named %s; the rules of this version (%s) name %s", source(run.file), run.Version, was, probe.Release, is)
	}
	return code, nil
}

// nodesOf lists the nodes of runs.
func nodesOf(runs []report.Run) string {
	var out []string
	for _, run := range runs {
		if !slices.Contains(out, run.Node) {
			out = append(out, run.Node)
		}
	}
	if n := len(out) - listedNodes; n > 0 {
		out = append(out[:listedNodes], fmt.Sprintf("%d more", n))
	}
	return strings.Join(out, ", ")
}

// listTyped lists the commands of recorded sessions, or only those on one node.
func (a *app) listTyped(names []string, node string) error {
	var all []report.Deed
	for _, name := range names {
		saved, err := a.load(name)
		if err == nil && saved.Deeds == nil {
			err = ui.BadUsage("%s is a saved run: only a session transcript has commands", source(name))
		}
		if err != nil {
			return err
		}
		all = append(all, saved.Deeds...)
	}
	all = slices.DeleteFunc(all, func(d report.Deed) bool { return node != "" && d.Node != node })
	slices.SortStableFunc(all, func(x, y report.Deed) int { return x.At.Compare(y.At) })
	return report.WriteDeeds(a.Out, all)
}

// load reads a saved run or a transcript from a file or from stdin.
func (a *app) load(name string) (report.Saved, error) {
	from := a.In
	if name != "-" {
		f, err := os.Open(name)
		if err != nil {
			return report.Saved{}, ui.BadUsage("%w", err)
		}
		defer f.Close()
		from = f
	}
	saved, err := report.Load(from)
	if err != nil {
		return saved, ui.BadUsage("%s %w", source(name), err)
	}
	return saved, nil
}

func source(name string) string {
	if name == "-" {
		return "stdin"
	}
	return name
}

// asFile quotes a file name for a shell, and prevents programs from mistaking it for an option. "-" means stdin.
func asFile(name string) string {
	if len(name) > 1 && name[0] == '-' {
		name = "./" + name
	}
	return probe.Quote(name)
}

// answersOf returns the results that another run's node reported about itself. It skips the node named by besides.
func answersOf(run report.Run, besides string) []diagnose.Finding {
	f := diagnose.Findings{Node: run.Node}
	for _, ev := range run.Events {
		if ev.Node == run.Node && run.Node != besides {
			f.Add(ev)
		}
	}
	return f.All
}

// briefly lists causes in one line.
func briefly(causes []probe.Cause) string {
	var out []string
	for _, c := range causes {
		out = append(out, fmt.Sprintf("%s (%s)", strings.TrimSpace(c.ID+" "+c.About), c.Confidence))
	}
	if len(out) == 0 {
		return "no cause"
	}
	return strings.Join(out, ", ")
}
