package prompt

import (
	"io"
	"os"
	"strings"
	"unicode/utf8"

	"golang.org/x/term"
)

// columns returns the width of a writer's terminal; 0 = no terminal.
func columns(w io.Writer) int {
	f, ok := Bare(w).(*os.File)
	if !ok {
		return 0
	}
	width, _, err := term.GetSize(int(f.Fd()))
	if err != nil {
		return 0
	}
	return width
}

// narrowest is the minimum width for folding. In a narrower terminal, folded text is not readable either.
const narrowest = 20

// fold wraps lines that are wider than width between words. If width is 0, it never wraps. The continuation is indented
// by two more columns than the line.
func fold(text string, width int) string {
	return Fold(text, width, func(line string) int {
		indent := len(line) - len(strings.TrimLeft(line, " ")) + 2
		if indent > width/2 {
			indent = 2
		}
		return indent
	})
}

// Fold wraps lines that are wider than width between words. If width is 0, it never wraps. indent returns the number of
// columns by which a line's continuation is indented; -1 = do not wrap the line. Fold does not split words that are too
// long. Colours have no width.
func Fold(text string, width int, indent func(line string) int) string {
	if width < narrowest {
		return text
	}
	var b strings.Builder
	for line := range strings.Lines(text) {
		if by := indent(line); by < 0 {
			b.WriteString(line)
		} else {
			foldLine(&b, line, width, by)
		}
	}
	return b.String()
}

func foldLine(b *strings.Builder, line string, width, indent int) {
	at := 0 // the current column
	for line != "" {
		blanks := line[:len(line)-len(strings.TrimLeft(line, " "))]
		rest := line[len(blanks):]
		end := strings.IndexByte(rest, ' ')
		if end < 0 {
			end = len(rest)
		}
		word := rest[:end]
		line = rest[end:]
		before, long := at+len(blanks), Columns(word)
		if long == 0 { // blanks at the end, or in a colour that ends at this point
			if strings.Contains(word, "\x1b[") {
				b.WriteString(blanks)
				at = before
			}
			b.WriteString(word)
			continue
		}
		if at > indent && before+long > width {
			b.WriteString("\n" + strings.Repeat(" ", indent))
			at = indent + long
		} else {
			b.WriteString(blanks)
			at = before + long
		}
		b.WriteString(word)
	}
}

// Columns returns the number of columns that a text takes, without colours and the final newline.
func Columns(text string) int {
	text = strings.TrimRight(text, "\n")
	n := utf8.RuneCountInString(text)
	for {
		_, colour, more := strings.Cut(text, "\x1b[")
		if !more {
			return n
		}
		code, rest, _ := strings.Cut(colour, "m")
		n -= len("\x1b[m") + len(code)
		text = rest
	}
}

// folder wraps a command's output to the terminal, line by line.
type folder struct {
	to    io.Writer
	width int
	begun []byte // an incomplete line
}

// maxBegun is the maximum number of bytes of a line to keep until the line ends.
const maxBegun = 64 << 10

// Unwrap returns the underlying writer.
func (f *folder) Unwrap() io.Writer { return f.to }

func (f *folder) Write(text []byte) (int, error) {
	f.begun = append(f.begun, text...)
	whole := strings.LastIndexByte(string(f.begun), '\n') + 1
	if len(f.begun)-whole > maxBegun {
		whole = len(f.begun)
	}
	if err := f.write(whole); err != nil {
		return 0, err
	}
	return len(text), nil
}

// flush writes an incomplete line.
func (f *folder) flush() error { return f.write(len(f.begun)) }

// write wraps and writes the first bytes of the buffer.
func (f *folder) write(n int) error {
	if n == 0 {
		return nil
	}
	_, err := io.WriteString(f.to, fold(string(f.begun[:n]), f.width))
	f.begun = append(f.begun[:0], f.begun[n:]...)
	return err
}
