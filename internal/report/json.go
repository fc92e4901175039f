package report

import (
	"encoding/json"
	"fmt"
	"io"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"
)

func writeJSON(w io.Writer, d any) error { return WriteJSON(w, "  ", d) }

// WriteJSON writes a value as readable JSON. No text in the JSON can control a terminal. Without indent, the JSON is on
// one line.
func WriteJSON(w io.Writer, indent string, v any) error {
	enc := json.NewEncoder(escaping{w})
	enc.SetIndent("", indent)
	enc.SetEscapeHTML(false)
	return enc.Encode(v)
}

// escaping escapes invisible characters that encoding/json leaves in texts, because they could control a terminal.
// Examples are control characters above 0x7e and bidirectional overrides. The value is unchanged.
type escaping struct{ w io.Writer }

func (e escaping) Write(b []byte) (int, error) {
	const piece = 64 << 10 // approximate size of the buffer
	var out []byte
	for at, size := 0, 0; at < len(b); at += size {
		var r rune
		switch r, size = utf8.DecodeRune(b[at:]); {
		case r == '\n' || unicode.IsGraphic(r):
			out = utf8.AppendRune(out, r)
		case r > 0xffff:
			high, low := utf16.EncodeRune(r)
			out = fmt.Appendf(out, `\u%04x\u%04x`, high, low)
		default:
			out = fmt.Appendf(out, `\u%04x`, r)
		}
		if len(out) < piece && at+size < len(b) {
			continue
		}
		if _, err := e.w.Write(out); err != nil {
			return 0, err
		}
		out = out[:0]
	}
	return len(b), nil
}
