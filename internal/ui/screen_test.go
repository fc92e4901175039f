package ui

import (
	"bytes"
	"strings"
	"testing"

	"github.com/calico-probe/calico-probe/internal/prompt"
)

// TestScreenLetsThroughText requires text and a report's colours to pass, however the writes are split.
func TestScreenLetsThroughText(t *testing.T) {
	t.Parallel()
	for said, want := range map[string]string{
		"a\tb\ngrün 中文\n":                          "a\tb\ngrün 中文\n",
		"\x1b[1;31mfail\x1b[0m":                    "\x1b[1;31mfail\x1b[0m",
		"\x1b[31m \x1b[2J \x1b]52;c;ZQ==\x07 \x1b": "?[31m ?[2J ?]52;c;ZQ==? ?",
		"\x1b\x1b[32mok":                           "?\x1b[32mok",
		"\u009b2J\u202egnp.exe\u2066\u200b\x7f":    "?2J?gnp.exe???",
		"ok\rforged\x08":                           "okforged?",
		"\x9b2J\xff":                               "\ufffd2J\ufffd",
	} {
		for _, size := range []int{1, 2, 3, len(said)} {
			if size < len(said) && strings.Contains(said, "\x1b") {
				continue // a colour is one piece
			}
			var out bytes.Buffer
			s := NewScreen(&out, colours())
			for i := 0; i < len(said); i += size {
				if n, err := s.Write([]byte(said[i:min(i+size, len(said))])); err != nil || n != min(size, len(said)-i) {
					t.Fatal(n, err)
				}
			}
			if out.String() != want {
				t.Errorf("%q in pieces of %d: %q, want %q", said, size, out.String(), want)
			}
		}
	}
	if s := NewScreen(t.Output(), nil); prompt.Bare(s) != t.Output() {
		t.Error("what is behind it cannot be had")
	}
	for _, c := range colours() {
		if got := shown(c, colours()); got != c {
			t.Errorf("the colour %q is shown as %q", c, got)
		}
	}
}

// colours returns some colours of a report.
func colours() []string { return []string{"\x1b[1;31m", "\x1b[32m", "\x1b[0m"} }
