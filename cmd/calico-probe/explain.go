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

// causesFlag adds the flag for the folder of an operator's causes.
func causesFlag(cmd *cobra.Command, dir *string) {
	cmd.Flags().StringVar(dir, "causes", "", "a folder with your own causes (ID.md), used in addition to the built-in causes")
	completions(cmd, map[string]completer{"causes": foldersOnly})
}

// loadCauses returns the causes from an operator's folder. If dir is "", there is no such folder. Errors in cause files
// are usage errors, one line each.
func loadCauses(dir string) ([]*diagnose.Rule, error) {
	rules, err := examine.Theirs(dir)
	if err != nil {
		return nil, ui.BadUsage("--causes: %w", err)
	}
	return rules, nil
}

const explainExample = `  # show the symptoms of a cause, similar causes, and the fix
  calico-probe explain bgp-filtered

  # show why last night's run did not name this cause
  calico-probe explain bgp-filtered --run night.ndjson`

func (a *app) explain() *cobra.Command {
	var file, node, causes string
	cmd := &cobra.Command{
		Use: "explain CHECK|CAUSE", Example: explainExample,
		Short: "Explain a check and its answers, or a cause and its fix",
		ValidArgsFunction: func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
			return explainedIDs(), cobra.ShellCompDirectiveNoFileComp
		},
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) != 1 {
				return ui.BadUsage("explain takes the ID of a check or a cause; 'calico-probe checks' and 'calico-probe causes' list IDs")
			}
			return nil
		},
		RunE: func(_ *cobra.Command, args []string) error {
			theirs, err := loadCauses(causes)
			if err != nil {
				return err
			}
			suite := cause.All().With(theirs)
			id := strings.TrimPrefix(strings.TrimPrefix(args[0], "check/"), "cause/") // as -o name prints it
			switch {
			case file != "":
				return a.explainRun(suite, id, file, node)
			case node != "":
				return ui.BadUsage("--node selects a node of --run FILE: add --run")
			}
			return explainID(a.Out, suite, id)
		},
	}
	cmd.Flags().StringVar(&file, "run", "", "show why this saved run names the cause, or why it does not; - is stdin")
	nodeFlag(cmd.Flags(), &node, "the node to explain, if --run has several nodes")
	causesFlag(cmd, &causes)
	return cmd
}

// explainID prints the explanation of a check or a cause, or of all checks with a prefix or tag.
func explainID(out io.Writer, suite diagnose.Suite, id string) error {
	var b strings.Builder
	if rule := suite.Rule(id); rule != nil {
		explain.Cause(&b, rule)
		return ui.Page(out, b.String())
	}
	found, err := probe.Select(examine.Suite(), []string{id}, nil)
	if err != nil {
		return ui.BadUsage("unknown check or cause %q%s; 'calico-probe checks' and 'calico-probe causes' list IDs", id, suggest.DidYouMean(id, slices.Concat(cause.All().IDs(), selectors())))
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
