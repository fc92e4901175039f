package main

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/calico-probe/calico-probe/internal/diagnose"
	"github.com/calico-probe/calico-probe/internal/examine"
	"github.com/calico-probe/calico-probe/internal/explain"
	"github.com/calico-probe/calico-probe/internal/subject/suite/cause"
	"github.com/calico-probe/calico-probe/internal/suggest"
	"github.com/calico-probe/calico-probe/internal/ui"
	"github.com/calico-probe/calico-probe/probe"
)

// causesFlag adds the folder of an operator's causes.
func causesFlag(cmd *cobra.Command, dir *string) {
	cmd.Flags().StringVar(dir, "causes", "", "a folder with your own causes (ID.md), used beside the program's")
	completions(cmd, map[string]completer{"causes": foldersOnly})
}

// loadCauses returns the causes of an operator's folder, "" for none. What is wrong with its files is wrong usage, a
// line each.
func loadCauses(dir string) ([]*diagnose.Rule, error) {
	rules, err := examine.Theirs(dir)
	if err != nil {
		return nil, ui.BadUsage("--causes: %w", err)
	}
	return rules, nil
}

const explainExample = `  # what a cause looks like, what it is mistaken for, and its fix
  calico-probe explain bgp-filtered

  # why last night's run did not name it
  calico-probe explain bgp-filtered --run night.ndjson`

func (a *app) explain() *cobra.Command {
	var file, node, causes string
	cmd := &cobra.Command{
		Use: "explain CHECK|CAUSE", Example: explainExample,
		Short: "Say why a check matters and what its answers mean, or how a cause comes about and what to do",
		ValidArgsFunction: func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
			return explainedIDs(), cobra.ShellCompDirectiveNoFileComp
		},
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) != 1 {
				return ui.BadUsage("explain takes the ID of a check or a cause; 'calico-probe checks' and 'calico-probe causes' list them")
			}
			return nil
		},
		RunE: func(_ *cobra.Command, args []string) error {
			theirs, err := loadCauses(causes)
			if err != nil {
				return err
			}
			suite := cause.All().With(theirs)
			id := strings.TrimPrefix(strings.TrimPrefix(args[0], "check/"), "cause/") // as -o name prints them
			switch {
			case file != "":
				return a.explainRun(suite, id, file, node)
			case node != "":
				return ui.BadUsage("--node chooses a node of --run FILE: name that file too")
			}
			return explainID(a.Out, suite, id)
		},
	}
	cmd.Flags().StringVar(&file, "run", "", "a saved run, - for stdin: show why the cause is named in it, or why not")
	nodeFlag(cmd.Flags(), &node, "of several nodes in --run, the one to explain")
	causesFlag(cmd, &causes)
	return cmd
}

// explainID says what there is to know about a check or a cause, or about all checks
// that begin so or have that tag.
func explainID(out io.Writer, suite diagnose.Suite, id string) error {
	var b strings.Builder
	if rule := suite.Rule(id); rule != nil {
		explain.Cause(&b, rule)
		return ui.Page(out, b.String())
	}
	found, err := probe.Select(examine.Suite(), []string{id}, nil)
	if err != nil {
		return ui.BadUsage("unknown check or cause %q%s; 'calico-probe checks' and 'calico-probe causes' list them", id, suggest.DidYouMean(id, slices.Concat(cause.All().IDs(), selectors())))
	}
	for i, d := range explain.Checks(found) {
		if i > 0 {
			b.WriteString("\n")
		}
		fmt.Fprintf(&b, "%s: %s\n\n%s\n\n", d.ID, d.Asks, d.Doc)
		for _, row := range d.Rows() {
			fmt.Fprintf(&b, "%-10s  %s\n", row[0], row[1])
		}
	}
	return ui.Page(out, b.String())
}
