package main

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/calico-probe/calico-probe/injector"
	"github.com/calico-probe/calico-probe/internal/examine"
	"github.com/calico-probe/calico-probe/internal/output"
	"github.com/calico-probe/calico-probe/internal/page"
	"github.com/calico-probe/calico-probe/internal/report"
	"github.com/calico-probe/calico-probe/internal/runbook"
	"github.com/calico-probe/calico-probe/internal/subject/suite/cause"
	"github.com/calico-probe/calico-probe/internal/ui"
	"github.com/calico-probe/calico-probe/probe"
)

func (a *app) runbook() *cobra.Command {
	cmd := &cobra.Command{
		Use: "runbook run|list|show|lint|record|skill", Short: "Run a written procedure: what to ask, what to make of it, whom to tell",
		Args: aVerb,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(a.runbookRun(), a.runbookList(), a.runbookShow(), a.runbookLint(), a.runbookRecord(),
		a.runbookSkill())
	return cmd
}

// knownToRunbooks is what runbooks may name.
func knownToRunbooks() runbook.Known {
	all := examine.Suite()
	return runbook.Known{
		Causes: cause.All().IDs(), Advice: cause.All().Advice(),
		Checks: append(examine.CheckIDs(all), probe.CheckPlaced, probe.CheckAnswered),
		Selects: func(want, skip []string, profile string) ([]string, error) {
			picked, err := examine.Select(want, skip, cmp.Or(profile, string(probe.Standard)))
			return examine.CheckIDs(picked), err
		},
		Together: together,
		// A runbook may run where nobody is.
		Methods:  slices.DeleteFunc(examine.ViaWords(), func(via string) bool { return injector.AccessOf(via).AsRoot }),
		Profiles: examine.ProfileNames(),
	}
}

// folders adds the flag that names where runbooks are.
func folders(cmd *cobra.Command, dirs *[]string) {
	cmd.Flags().StringArrayVar(dirs, "runbooks", nil, "folder with runbooks of your own (*.yaml), beside the built-in ones or in their place; may be repeated")
	if err := cmd.MarkFlagDirname("runbooks"); err != nil { // the flag exists
		panic(err)
	}
}

// library is every runbook that can be named.
func library(dirs []string) ([]runbook.Item, error) {
	items, err := runbook.Library(knownToRunbooks(), dirs...)
	if err != nil {
		return nil, ui.BadUsage("%w", err)
	}
	return items, nil
}

// isFile tells the path of a runbook from a name.
func isFile(name string) bool {
	return strings.ContainsAny(name, `/\`) || strings.HasSuffix(name, ".yaml") || strings.HasSuffix(name, ".yml")
}

// findRunbook gives the runbook of a name or a file; what is wrong with it is wrong usage.
func findRunbook(name string, dirs []string) (runbook.Item, error) {
	if isFile(name) {
		it := runbook.ReadFile(name, knownToRunbooks())
		if it.Err != nil {
			return it, ui.BadUsage("%w", it.Err)
		}
		return it, nil
	}
	items, err := library(dirs)
	if err != nil {
		return runbook.Item{}, err
	}
	i := slices.IndexFunc(items, func(it runbook.Item) bool { return it.Name == name })
	if i < 0 {
		return runbook.Item{}, ui.BadUsage("there is no runbook %q%s; 'calico-probe runbook list' lists them, and a file is named with its path", name, runbook.Nearest(name, namesOf(items)))
	}
	if items[i].Err != nil {
		return items[i], ui.BadUsage("%w", items[i].Err)
	}
	return items[i], nil
}

func namesOf(items []runbook.Item) []string {
	var out []string
	for _, it := range items {
		out = append(out, it.Name)
	}
	return out
}

// completeRunbook completes the name of a runbook; files are the shell's to complete.
func completeRunbook(dirs *[]string) func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
	return func(_ *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
		items, err := library(*dirs)
		if err != nil || len(args) > 0 {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		var out []string
		for _, it := range items {
			out = append(out, cobra.CompletionWithDesc(it.Name, it.Title))
		}
		return out, cobra.ShellCompDirectiveDefault
	}
}

func (a *app) runbookList() *cobra.Command {
	var dirs []string
	cmd := listVerb(a, "list", "List the runbooks", listing[runbook.Item]{
		kind:  "runbook",
		items: func() ([]runbook.Item, error) { return library(dirs) },
		columns: []column[runbook.Item]{
			{head: "NAME", text: func(it runbook.Item) string { return it.Name }},
			{head: "SOURCE", text: sourceOf, wide: true},
			{head: "ALERTS", text: func(it runbook.Item) string { return strings.Join(it.Alerts, ",") }, wide: true},
			{head: "TITLE", text: func(it runbook.Item) string {
				if it.Err != nil {
					return "cannot be run: see 'calico-probe runbook lint'"
				}
				return it.Title
			}},
		},
	})
	folders(cmd, &dirs)
	return cmd
}

// sourceOf is where a runbook comes from.
func sourceOf(it runbook.Item) string {
	switch {
	case it.BuiltIn:
		return "built in"
	case it.Replaces != "":
		return it.File + ", replaces " + it.Replaces
	}
	return it.File
}

func (a *app) runbookShow() *cobra.Command {
	var dirs []string
	cmd := &cobra.Command{
		Use: "show NAME|FILE", Short: "Print a runbook as it is written, to read or to begin one's own with",
		Args: oneRunbook, ValidArgsFunction: completeRunbook(&dirs),
		RunE: func(_ *cobra.Command, args []string) error {
			it, err := findRunbook(args[0], dirs)
			if err != nil {
				return err
			}
			_, err = fmt.Fprint(a.Out, probe.Plain(string(it.Text)))
			return err
		},
	}
	folders(cmd, &dirs)
	return cmd
}

func (a *app) runbookSkill() *cobra.Command {
	var dirs []string
	cmd := &cobra.Command{
		Use: "skill NAME|FILE", Short: "Print a runbook as a skill, for an agent that has the tools of 'calico-probe mcp'",
		Long: `Prints a runbook as a SKILL.md: which tools of 'calico-probe mcp' an agent calls, in which
order, and what is to be said beside each cause. 'calico-probe docs DIR' writes those of the
built-in runbooks.`,
		Args: oneRunbook, ValidArgsFunction: completeRunbook(&dirs),
		RunE: func(_ *cobra.Command, args []string) error {
			it, err := findRunbook(args[0], dirs)
			if err != nil {
				return err
			}
			return runbook.WriteSkill(a.Out, it)
		},
	}
	folders(cmd, &dirs)
	return cmd
}

func oneRunbook(_ *cobra.Command, args []string) error {
	if len(args) != 1 {
		return ui.BadUsage("name one runbook, or its file; 'calico-probe runbook list' lists them")
	}
	return nil
}

func (a *app) runbookLint() *cobra.Command {
	return &cobra.Command{
		Use: "lint FILE|FOLDER...", Short: "Say what is wrong with runbooks before they are needed",
		Long: `Reads runbooks without running them and prints what is wrong with each, a line each:
FILE:LINE: WHAT. It finds unknown fields, steps that do several things or are never
reached, expressions that cannot be evaluated, words that a status or a verdict never is,
and names of checks, causes, steps and parameters that do not exist. A runbook with any of
these cannot be run; lint exits with 2 then.

What can be run and is odd all the same is FILE:LINE: warning: WHAT, which leaves the exit
code 0: causes[0], which need not be there, an answer of a check that no step asks, a
wait that is longer than the whole runbook may take.`,
		ValidArgsFunction: func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
			return []string{"yaml", "yml"}, cobra.ShellCompDirectiveFilterFileExt
		},
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) == 0 {
				return ui.BadUsage("lint takes the files of runbooks")
			}
			return nil
		},
		RunE: func(_ *cobra.Command, args []string) error {
			wrong := false
			files, err := filesToLint(args)
			if err != nil {
				return err
			}
			for _, name := range files {
				it := runbook.ReadFile(name, knownToRunbooks())
				findings, ok := errors.AsType[runbook.LintError](it.Err)
				if it.Err != nil && !ok {
					return ui.BadUsage("%w", it.Err)
				}
				if it.Err == nil {
					findings = it.Runbook.Warnings()
				}
				for _, f := range findings {
					fmt.Fprintln(a.Out, probe.OneLine(f.String()))
				}
				switch {
				case it.Err != nil:
					wrong = true
				case len(findings) > 0:
					ui.Say(a.ErrOut, "%s: it can be run; warnings: %d", name, len(findings))
				default:
					ui.Say(a.ErrOut, "%s: nothing is wrong", name)
				}
			}
			if wrong {
				return ui.Exit(report.ExitUsage)
			}
			return nil
		},
	}
}

// filesToLint are the files that are named, and the runbooks in the folders that are.
func filesToLint(args []string) ([]string, error) {
	var out []string
	for _, name := range args {
		if info, err := os.Stat(name); err != nil || !info.IsDir() { // reading it tells what is wrong
			out = append(out, name)
			continue
		}
		n := len(out)
		for _, form := range []string{"*.yaml", "*.yml"} {
			found, err := fs.Glob(os.DirFS(name), form)
			if err != nil {
				return nil, ui.BadUsage("reading runbooks of %s: %w", name, err)
			}
			for _, f := range found {
				out = append(out, filepath.Join(name, f))
			}
		}
		if len(out) == n {
			return nil, ui.BadUsage("%s has no runbook (*.yaml)", name)
		}
	}
	return out, nil
}

func (a *app) runbookRecord() *cobra.Command {
	out := &output.Set{}
	cmd := &cobra.Command{
		Use: "record JOURNAL", Short: "Tell what a runbook saw, decided and did, from its journal",
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) != 1 {
				return ui.BadUsage("record takes the journal of a runbook; 'calico-probe runbook run' says where it is")
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := out.Open(a.Out, output.Inputs(a.In, args...)...); err != nil {
				return err
			}
			out.Until(cmd.Context())
			return out.Close(fromJournal(out, args[0]))
		},
	}
	out.Flag(cmd, recordFormats())
	return cmd
}

// fromJournal writes what a journal holds.
func fromJournal(out *output.Set, journal string) error {
	j, err := runbook.OpenJournal(journal, false)
	if err != nil {
		return ui.BadUsage("%w", err)
	}
	rb, err := runbook.Load(j.Begun.File, []byte(j.Begun.Source), knownToRunbooks())
	if err != nil {
		return ui.BadUsage("%s was written with another version: %w", journal, err)
	}
	r, err := runbook.Replay(rb, j)
	if err != nil {
		return ui.BadUsage("%s: %w", journal, err)
	}
	err = out.Each(func(to *output.Place) error {
		if err := writeHead(to, r); err != nil {
			return err
		}
		for _, e := range r.Steps {
			if err := writeStep(to, e); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	return writeEnd(out, r)
}

// recordFormats are the forms in which a record can be had.
func recordFormats() []report.Format {
	return []report.Format{
		{Name: "text", For: "for people, every step as it happens", Lives: true},
		{Name: "markdown", For: "to paste into a ticket"},
		{Name: "html", For: "one page, every step"},
		{Name: "json", For: "the whole record as one document"},
		{Name: "ndjson", For: "every step as it happens, one a line, and what it came to", Lives: true},
	}
}

// writeHead, writeStep and writeEnd write a record to an output as it comes.
func writeHead(to *output.Place, r *runbook.Record) error {
	if to.Name != "text" {
		return nil
	}
	_, err := fmt.Fprintf(to, "%s: %s\n%s\n\n", probe.OneLine(r.Runbook), probe.OneLine(r.Title),
		report.Head(r.Node, r.Cluster, r.Began))
	return err
}

func writeStep(to *output.Place, e runbook.Entry) error {
	switch to.Name {
	case "text":
		return runbook.WriteEntry(to, e)
	case "ndjson":
		return report.WriteJSON(to, "", e)
	}
	return nil
}

// writeEnd writes the end of a record; of one that has none, what is a document as far as
// it goes.
func writeEnd(out *output.Set, r *runbook.Record) error {
	return out.Each(func(to *output.Place) error {
		switch {
		case to.Name == "markdown":
			return runbook.WriteMarkdown(to, r)
		case to.Name == "json":
			return report.WriteJSON(to, "  ", r)
		case to.Name == "html":
			return page.Write(to, r.Page())
		case r.Outcome == nil:
			return nil
		case to.Name == "ndjson":
			return report.WriteJSON(to, "", r.Outcome)
		}
		return runbook.WriteOutcome(to, *r.Outcome)
	})
}
