package report

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"unicode"
	"unicode/utf16"
)

func writeJSON(w io.Writer, d any) error { return WriteJSON(w, "  ", d) }

// WriteJSON writes a value as JSON that people can read too and no text in it can steer a
// terminal with. Without indent it is one line.
func WriteJSON(w io.Writer, indent string, v any) error {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetIndent("", indent)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return err
	}
	_, err := escaping{w}.Write(b.Bytes())
	return err
}

// escaping writes JSON so that nothing in its texts can steer a terminal: what encoding/json
// leaves as it is and cannot be seen, among it the control characters above 0x7e and
// those that turn the order of letters round, is escaped. The value stays the same.
type escaping struct{ w io.Writer }

func (e escaping) Write(b []byte) (int, error) {
	var out bytes.Buffer
	for _, r := range string(b) {
		switch {
		case r == '\n' || unicode.IsGraphic(r):
			out.WriteRune(r)
		case r > 0xffff:
			high, low := utf16.EncodeRune(r)
			fmt.Fprintf(&out, `\u%04x\u%04x`, high, low)
		default:
			fmt.Fprintf(&out, `\u%04x`, r)
		}
	}
	if _, err := e.w.Write(out.Bytes()); err != nil {
		return 0, err
	}
	return len(b), nil
}
