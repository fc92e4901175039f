// Package schema holds the published JSON Schemas of what calico-probe writes and reads.
// They are made of the Go types by 'make docs'.
package schema

import (
	"embed"
	"fmt"
	"strings"
)

//go:embed *.schema.json
var files embed.FS

const suffix = ".schema.json"

// Names lists what there is a schema of: event is a line of -o ndjson and of a session's
// transcript, report, fleet, diff and record are -o json of a run, of one over several nodes, of a
// diff and of a runbook, runbook
// is a runbook's file.
func Names() []string { return []string{"event", "report", "fleet", "diff", "record", "runbook"} }

// Of returns a schema, as its file in docs/schema has it.
func Of(name string) ([]byte, error) {
	b, err := files.ReadFile(name + suffix)
	if err != nil {
		return nil, fmt.Errorf("there is no schema of %q: there are %s", name, strings.Join(Names(), ", "))
	}
	return b, nil
}
