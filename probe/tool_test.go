package probe

import (
	"bytes"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// heard is the output of a tool's writer, and the number of events.
func heard(write func(*toolOutput), atOnce bool) (text string, events, data int) {
	s := &toolOutput{atOnce: atOnce, emit: func(ev Event) {
		if events++; ev.Data != nil {
			data++
		}
		text += ev.Text + string(ev.Data)
	}}
	write(s)
	s.end()
	return text, events, data
}

// TestTextStaysText checks that text stays text, in whatever pieces it is written.
func TestTextStaysText(t *testing.T) {
	t.Parallel()
	synctest.Test(t, testTextStaysText) // in which nothing is late
}

func testTextStaysText(t *testing.T) {
	text := strings.Repeat("größer – 日本 🙂\n", 400)
	for _, atOnce := range []bool{false, true} {
		for size := 1; size < 5000; size = size*3 + 1 {
			got, events, data := heard(func(s *toolOutput) {
				for b := []byte(text); len(b) > 0; {
					n := min(size, len(b))
					if wrote, err := s.Write(b[:n]); wrote != n || err != nil {
						t.Fatal(wrote, err)
					}
					b = b[n:]
				}
			}, atOnce)
			if got != text || data > 0 {
				t.Errorf("%d bytes at a time: %d events are no text; the whole is as it was: %v", size, data,
					got == text)
			}
			if !atOnce && events > len(text)/(piece-3)+2 {
				t.Errorf("%d bytes at a time: %d events", size, events)
			}
		}
	}
}

// TestBytesStayBytes checks that non-text bytes arrive unchanged, also the last ones.
func TestBytesStayBytes(t *testing.T) {
	t.Parallel()
	for _, want := range []string{"\xff\xc3", "caf\xe9", "\xc3", strings.Repeat("\x00\xfe\xc3", 1000)} {
		for _, atOnce := range []bool{false, true} {
			got, _, data := heard(func(s *toolOutput) { _, _ = s.Write([]byte(want)) }, atOnce)
			if got != want || data == 0 {
				t.Errorf("%q: got %q in %d pieces", want, got, data)
			}
		}
	}
}

// TestWhatIsWrittenIsSeen checks that output appears without further output, and at once for an interactive tool.
func TestWhatIsWrittenIsSeen(t *testing.T) {
	t.Parallel()
	synctest.Test(t, testWhatIsWrittenIsSeen)
}

func testWhatIsWrittenIsSeen(t *testing.T) {
	said := make(chan string, 10)
	s := &toolOutput{emit: func(ev Event) { said <- ev.Text }}
	for _, cell := range []string{"NAME", "  ", "KIND", "\n"} {
		_, _ = s.Write([]byte(cell))
	}
	select {
	case got := <-said:
		if got != "NAME  KIND\n" {
			t.Errorf("%q", got)
		}
	case <-time.After(20 * time.Second):
		t.Fatal("nothing was said")
	}
	s.atOnce = true
	if _, _ = s.Write([]byte("$ ")); len(said) != 1 {
		t.Error("a prompt was not said at once")
	}
	var line bytes.Buffer
	enc := NewEncoder(&line)
	full := &toolOutput{emit: enc.Encode}
	_, _ = full.Write(bytes.Repeat([]byte{0x1b}, piece+1)) // six bytes each
	if got := strings.Index(line.String(), "\n") + 1; got > MaxLine || enc.Err() != nil {
		t.Errorf("a line of %d bytes, %v", got, enc.Err())
	}
}
