package prompt

import (
	"bytes"
	"strings"
	"testing"

	"github.com/calico-probe/calico-probe/probe/must"
)

func TestFold(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"":                                      "",
		"short\n":                               "short\n",
		"exactly twenty chars\n":                "exactly twenty chars\n",
		"one more than twenty!\n":               "one more than\n  twenty!\n",
		"  an indented line that is long\n":     "  an indented line\n    that is long\n",
		"a  b      columns  and  more  more\nx": "a  b      columns\n  and  more  more\nx",
		"a-word-that-is-longer-than-the-line x": "a-word-that-is-longer-than-the-line\n  x",
		"\x1b[31mred\x1b[0m is no column here":  "\x1b[31mred\x1b[0m is no column\n  here",
		"\x1b[32mok      \x1b[0m bgp-session":   "\x1b[32mok      \x1b[0m bgp-session",
		"größer grün über ältere Öfen":          "größer grün über\n  ältere Öfen",
		"blanks at the end              \nnext": "blanks at the end\nnext",
		"no end of line, just many more words":  "no end of line, just\n  many more words",
	} {
		if got := fold(text, 20); got != want {
			t.Errorf("%q: got %q, want %q", text, got, want)
		}
		if got := fold(text, 0); got != text {
			t.Errorf("no terminal: %q is made %q", text, got)
		}
	}
	text := strings.Repeat("some words of a table  ", 20) + "\nand a tail of more than twenty columns"
	for size := range 30 {
		var out bytes.Buffer
		f := &folder{to: &out, width: 20}
		for rest := text; rest != ""; rest = rest[min(size+1, len(rest)):] {
			must.Get(f.Write([]byte(rest[:min(size+1, len(rest))])))(t)
		}
		if err := f.flush(); err != nil || out.String() != fold(text, 20) {
			t.Errorf("in pieces of %d: %q, %v", size+1, out.String(), err)
		}
	}
}
