package main

import (
	"bytes"
	"strings"
	"testing"

	"github.com/calico-probe/calico-probe/report"
	"github.com/calico-probe/calico-probe/shell"
)

// TestScreenLetsThroughText and the colours of reports, however it is cut into pieces.
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
			s := &screen{to: &out}
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
	if s := (&screen{to: t.Output()}); shell.Bare(s) != t.Output() {
		t.Error("what is behind it cannot be had")
	}
	for _, c := range report.Colours() {
		if got := shown(c); got != c {
			t.Errorf("the colour %q is shown as %q", c, got)
		}
	}
}

// TestProgramIsBehindTheScreen runs the program: what a user types comes back in its messages.
func TestProgramIsBehindTheScreen(t *testing.T) {
	t.Parallel()
	exit, out, errs := call(t, "explain", "no\x1b[2J\u202esuch")
	if exit != report.ExitUsage || strings.ContainsAny(out+errs, "\x1b\u202e") || !strings.Contains(errs, "such") {
		t.Errorf("exit %d, %q, %q", exit, out, errs)
	}
}
