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

// Screen cleans what is written to a terminal. It lets through what can be read and the
// colours it was given; anything else that could steer a terminal is shown as a
// question mark, no matter who said it. Where nodes and API objects are quoted they are cleaned too, before
// they are coloured: here a new line and a colour are as good as any other.
//
// A colour must be one Write: of one in two pieces the first is not known to be a colour yet,
// and is shown as a question mark.
//
// What is meant to steer the terminal is written to the writer behind it, prompt.Bare: a
// shell that has the terminal to itself, the output of one command in a pipe or a file, the
// line that is being typed, and a text that takes the place of the one before.
type Screen struct {
	mu      sync.Mutex
	to      io.Writer
	colours []string
	rest    []byte // the first bytes of a letter that was written in two pieces
}

// ErrReaderGone is the error of writing where nobody reads any more, as after '| head'. It is
// no failure: the reader has seen enough.
var ErrReaderGone = errors.New("the reader is gone")

// NewScreen returns a Screen that writes to a writer and lets these colours through.
func NewScreen(to io.Writer, colours []string) *Screen { return &Screen{to: to, colours: colours} }

// Unwrap is the writer behind it.
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

// shown is a text as a terminal may have it.
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
