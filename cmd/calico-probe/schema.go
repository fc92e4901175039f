package main

import (
	"strings"

	"github.com/spf13/cobra"

	"github.com/calico-probe/calico-probe/docs/schema"
	"github.com/calico-probe/calico-probe/internal/ui"
)

// schema prints what others can check our output, or their runbooks, with.
func (a *app) schema() *cobra.Command {
	return &cobra.Command{
		Use: "schema " + strings.Join(schema.Names(), "|"), Short: "Print the JSON Schema of what is written or read",
		Long: `Prints a JSON Schema (draft 2020-12): event is a line of -o ndjson and of the transcript
of a session; report is -o json of run, analyze and preflight, fleet that of a run over
several nodes, diff that of diff, record that of 'runbook run' and 'runbook record'; runbook
is a runbook's file. What is written only grows: readers skip fields and types of events they do not
know. The values of status, verdict, exit and confidence are closed lists as long as v
is the same; IDs of checks and causes are none.`,
		ValidArgs: schema.Names(),
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) != 1 {
				return ui.BadUsage("schema takes one of %s", strings.Join(schema.Names(), ", "))
			}
			return nil
		},
		RunE: func(_ *cobra.Command, args []string) error {
			b, err := schema.Of(args[0])
			if err != nil {
				return ui.BadUsage("%w", err)
			}
			_, err = a.Out.Write(b)
			return err
		},
	}
}
