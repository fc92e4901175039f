package ui

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"syscall"
	"unicode/utf8"

	"github.com/calico-probe/calico-probe/probe"
)

// Screen cleans the output to a terminal. It passes printable text and a fixed list of colours. It replaces any other
// control character, from any source, with a question mark. Texts from nodes and API objects must be cleaned before
// they are coloured, because Screen cannot distinguish their newlines and colours from ours.
//
// A colour must be written with a single Write: Screen does not recognize a colour in two pieces.
//
// Output that must control the terminal bypasses Screen through prompt.Bare: an interactive
// shell, a command's output into a pipe or a file, the line editor, and a status text that
// replaces the previous one.
type Screen struct {
	mu      sync.Mutex
	to      io.Writer
	colours []string
	rest    []byte // the first bytes of a character that was written in two pieces
}

// ErrReaderGone is the error for a write after the reader closed the pipe, as '| head' does. It
// is not a failure: the reader has seen enough.
var ErrReaderGone = errors.New("the reader closed the pipe")

// NewScreen returns a Screen that writes to a writer and allows these colours.
func NewScreen(to io.Writer, colours []string) *Screen { return &Screen{to: to, colours: colours} }

// Unwrap returns the underlying writer.
func (s *Screen) Unwrap() io.Writer { return s.to }

func (s *Screen) Write(b []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	text := append(s.rest, b...)
	n := len(text)
	for i := n - 1; i >= 0 && i > n-utf8.UTFMax; i-- {
		if utf8.RuneStart(text[i]) {
			if !utf8.FullRune(text[i:]) {
				n = i
			}
			break
		}
	}
	s.rest = bytes.Clone(text[n:])
	if n == 0 {
		return len(b), nil
	}
	if _, err := io.WriteString(s.to, shown(string(text[:n]), s.colours)); err != nil {
		if errors.Is(err, syscall.EPIPE) {
			err = fmt.Errorf("%w: %w", ErrReaderGone, err)
		}
		return 0, err
	}
	return len(b), nil
}

// shown returns the part of a text that a terminal may show.
func shown(text string, colours []string) string {
	var out strings.Builder
	for {
		plain, rest, more := strings.Cut(text, "\x1b")
		out.WriteString(probe.Plain(plain))
		if !more {
			return out.String()
		}
		i := slices.IndexFunc(colours, func(c string) bool { return strings.HasPrefix("\x1b"+rest, c) })
		if i < 0 {
			out.WriteByte('?')
			text = rest
			continue
		}
		out.WriteString(colours[i])
		text = ("\x1b" + rest)[len(colours[i]):]
	}
}
