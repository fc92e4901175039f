package runbook

import "io"

// WriteMarkdown writes the record for a ticket.
func WriteMarkdown(w io.Writer, r *Record) error { return nil }
