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
		Use: "runbook run|list|show|lint|record|skill", Short: "Run a runbook: a procedure of checks, conclusions and notifications",
		Args: aVerb,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(a.runbookRun(), a.runbookList(), a.runbookShow(), a.runbookLint(), a.runbookRecord(),
		a.runbookSkill())
	return cmd
}

// knownToRunbooks returns the valid causes, checks, methods and profiles in runbooks.
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
		// A runbook may run unattended, but only a person may use the access method kubelet.
		Methods:  slices.DeleteFunc(examine.ViaWords(), func(via string) bool { return injector.AccessOf(via).AsRoot }),
		Profiles: examine.ProfileNames(),
	}
}

// folders adds the flag for folders with runbooks.
func folders(cmd *cobra.Command, dirs *[]string) {
	cmd.Flags().StringArrayVar(dirs, "runbooks", nil, "folder with your own runbooks (*.yaml), which replace built-in runbooks with the same name; may be repeated")
	if err := cmd.MarkFlagDirname("runbooks"); err != nil { // the flag exists
		panic(err)
	}
}

// library returns the built-in runbooks and the runbooks in folders.
func library(dirs []string) ([]runbook.Item, error) {
	items, err := runbook.Library(knownToRunbooks(), dirs...)
	if err != nil {
		return nil, ui.BadUsage("%w", err)
	}
	return items, nil
}

// isFile reports whether an argument is the path of a runbook, not its name.
func isFile(name string) bool {
	return strings.ContainsAny(name, `/\`) || strings.HasSuffix(name, ".yaml") || strings.HasSuffix(name, ".yml")
}

// findRunbook returns the runbook with a name or in a file. Errors in the runbook are usage errors.
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
		return runbook.Item{}, ui.BadUsage("unknown runbook %q%s; 'calico-probe runbook list' lists runbooks; for a file, use its path", name, runbook.Nearest(name, namesOf(items)))
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

// completeRunbook completes runbook names. The shell completes file names.
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
					return "invalid: see 'calico-probe runbook lint'"
				}
				return it.Title
			}},
		},
	})
	folders(cmd, &dirs)
	return cmd
}

// sourceOf returns where a runbook comes from.
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
		Use: "show NAME|FILE", Short: "Print the source of a runbook, to read it or to copy it",
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
		Use: "skill NAME|FILE", Short: "Print a runbook as a skill, for agents that use 'calico-probe mcp'",
		Long: `Prints a runbook as a SKILL.md. It lists the tools of 'calico-probe mcp' that an agent calls,
their order, and what the agent must report with each cause. 'calico-probe docs DIR' writes the
skills of the built-in runbooks.`,
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
		return ui.BadUsage("name one runbook or runbook file; 'calico-probe runbook list' lists runbooks")
	}
	return nil
}

func (a *app) runbookLint() *cobra.Command {
	return &cobra.Command{
		Use: "lint FILE|FOLDER...", Short: "Check runbooks for errors before you need them",
		Long: `Reads runbooks without running them, and prints one line for each error: FILE:LINE: WHAT. It
finds unknown fields, unreachable steps, steps that do several things, and expressions that
cannot be evaluated. It also finds comparisons with an impossible status or verdict, and unknown
checks, causes, steps and parameters. A runbook with an error cannot run, and lint exits 2.

A warning (FILE:LINE: warning: WHAT) marks a runbook that is valid but suspicious; the exit code
is still 0. Examples: causes[0], which might not exist; the answer of a check that no step runs;
a wait longer than the limit of the whole runbook.`,
		ValidArgsFunction: func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
			return []string{"yaml", "yml"}, cobra.ShellCompDirectiveFilterFileExt
		},
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) == 0 {
				return ui.BadUsage("lint takes runbook files")
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
					ui.Say(a.ErrOut, "%s: valid; warnings: %d", name, len(findings))
				default:
					ui.Say(a.ErrOut, "%s: valid", name)
				}
			}
			if wrong {
				return ui.Exit(report.ExitUsage)
			}
			return nil
		},
	}
}

// filesToLint returns the named files and the runbook files in the named folders.
func filesToLint(args []string) ([]string, error) {
	var out []string
	for _, name := range args {
		if info, err := os.Stat(name); err != nil || !info.IsDir() { // reading the file returns the error later
			out = append(out, name)
			continue
		}
		n := len(out)
		for _, form := range []string{"*.yaml", "*.yml"} {
			found, err := fs.Glob(os.DirFS(name), form)
			if err != nil {
				return nil, ui.BadUsage("reading the runbooks in %s: %w", name, err)
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
		Use: "record JOURNAL", Short: "Show what a runbook saw, decided and did, from its journal",
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) != 1 {
				return ui.BadUsage("record takes the journal of a runbook; 'calico-probe runbook run' prints its path")
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

// fromJournal writes the record of a journal.
func fromJournal(out *output.Set, journal string) error {
	j, err := runbook.OpenJournal(journal, false)
	if err != nil {
		return ui.BadUsage("%w", err)
	}
	rb, err := runbook.Load(j.Header.File, []byte(j.Header.Source), knownToRunbooks())
	if err != nil {
		return ui.BadUsage("%s is from another version: %w", journal, err)
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

// recordFormats are the output formats of a record.
func recordFormats() []report.Format {
	return []report.Format{
		{Name: "text", For: "for people, every step as it happens", Lives: true},
		{Name: "markdown", For: "to paste into a ticket"},
		{Name: "html", For: "one page, every step"},
		{Name: "json", For: "the whole record as one document"},
		{Name: "ndjson", For: "every step as it happens, one per line, and the outcome", Lives: true},
	}
}

// writeHead, writeStep and writeEnd write the parts of a record to an output.
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

// writeEnd writes the outcome of a record. For formats that are one document, it writes the whole record, even without
// an outcome.
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
