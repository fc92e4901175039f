package shell

import (
	"errors"
	"strings"
	"unicode"
)

// Line is one command as it was typed: words, and what its output is piped to.
type Line struct {
	Words []string
	Pipe  string // a command of the user's own machine, "" = none
	Text  string // as it was typed
}

// Parse reads commands: words, quoted as in a shell with ' " and \, end with a new line
// or ;, # begins a comment, and what follows | goes to the local shell as it is, up to the
// end of the line or a ; outside quotes.
func Parse(text string) ([]Line, error) {
	var out []Line
	var line Line
	var word strings.Builder
	begun, start, pipe := false, 0, -1
	var quote rune
	runes := []rune(text)
	endWord := func() {
		if begun && pipe < 0 {
			line.Words = append(line.Words, word.String())
		}
		word.Reset()
		begun = false
	}
	endLine := func(at int) error {
		endWord()
		line.Text = strings.TrimSpace(string(runes[start:at]))
		if pipe >= 0 {
			if line.Pipe = strings.TrimSpace(string(runes[pipe:at])); line.Pipe == "" || len(line.Words) == 0 {
				return errors.New("| stands between a command and one of your own machine")
			}
		}
		if len(line.Words) > 0 {
			out = append(out, line)
		}
		line, pipe, start = Line{}, -1, at+1
		return nil
	}
	for i := 0; i < len(runes); i++ {
		r := runes[i]
		switch {
		case quote != 0 && r == quote:
			quote = 0
		case quote == '\'':
			word.WriteRune(r)
		case r == '\\' && i+1 < len(runes):
			i++
			begun = true
			if runes[i] != '\n' {
				word.WriteRune(runes[i])
			}
		case quote != 0:
			word.WriteRune(r)
		case r == '\'' || r == '"':
			quote, begun = r, true
		case r == '\n' || r == ';':
			if err := endLine(i); err != nil {
				return nil, err
			}
		case r == '|' && pipe < 0:
			endWord()
			pipe = i + 1
		case r == '#' && !begun && pipe < 0:
			for i+1 < len(runes) && runes[i+1] != '\n' {
				runes[i] = ' '
				i++
			}
			runes[i] = ' '
		case unicode.IsSpace(r):
			endWord()
		default:
			begun = true
			word.WriteRune(r)
		}
	}
	if quote != 0 {
		return nil, errors.New("a quote is not closed")
	}
	if err := endLine(len(runes)); err != nil {
		return nil, err
	}
	return out, nil
}
