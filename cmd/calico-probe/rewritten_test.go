package main

import (
	"bytes"
	"fmt"
	"testing"
)

// TestRewritten requires a status text to replace the previous one and nothing else: stderr and stdout are one terminal
// here.
func TestRewritten(t *testing.T) {
	t.Parallel()
	var terminal bytes.Buffer
	r := &rewritten{to: &terminal}
	wants := func(want string) {
		t.Helper()
		if got := terminal.String(); got != want {
			t.Errorf("the terminal is given %q, want %q", got, want)
		}
		terminal.Reset()
	}
	r.put("one", 80)
	r.put("a text of two rows", 10)
	wants("one\n\x1b[1A\r\x1b[Ja text of two rows\n")
	r.put("two", 80)
	wants("\x1b[2A\r\x1b[Jtwo\n")
	r.leave()
	fmt.Fprintln(&terminal, "what it came to, on stdout")
	r.put("the next wait", 80)
	wants("what it came to, on stdout\nthe next wait\n")
	fmt.Fprintln(r, "on stderr")
	r.put("on", 80)
	wants("on stderr\non\n")
}
