package main

import (
	"strings"

	"github.com/spf13/cobra"

	"github.com/calico-probe/calico-probe/docs/schema"
	"github.com/calico-probe/calico-probe/internal/ui"
)

// schema prints the JSON Schemas. Users validate our output or their own runbooks with them.
func (a *app) schema() *cobra.Command {
	return &cobra.Command{
		Use: "schema " + strings.Join(schema.Names(), "|"), Short: "Print the JSON Schema of an output or of runbooks",
		Long: `Prints a JSON Schema (draft 2020-12):

event    a line of -o ndjson, or of a session transcript
report   -o json of run, analyze and preflight
fleet    -o json of a run over several nodes
diff     -o json of diff
record   -o json of 'runbook run' and 'runbook record'
runbook  the file of a runbook

New versions may add fields and event types: readers must skip unknown fields and types. While
v stays the same, status, verdict, exit and confidence get no new values. Checks and causes may
get new IDs.`,
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
