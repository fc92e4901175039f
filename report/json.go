package report

import (
	"encoding/json"
	"io"
)

func writeJSON(w io.Writer, d Document) error { return indented(w, d) }

// indented writes a value as JSON that people can read too.
func indented(w io.Writer, v any) error {
	enc := json.NewEncoder(w)
	enc.SetIndent("", "  ")
	enc.SetEscapeHTML(false)
	return enc.Encode(v)
}
