package prompt

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
			line.Pipe = strings.TrimSpace(string(runes[pipe:at]))
			if line.Pipe == "" || len(line.Words) == 0 || strings.HasPrefix(line.Pipe, "|") {
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
			if quote == '"' && !strings.ContainsRune("\"\\$`\n", runes[i]) {
				word.WriteRune(r)
			}
			if runes[i] != '\n' {
				begun = true
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
		case strings.ContainsRune("<>&", r) && pipe < 0:
			return nil, errors.New(string(r) + " means nothing here unless quoted: '| cat >FILE' writes to a file, ; separates commands")
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

// unfinished is what is being typed at the end of a text: the words of its last command,
// the word begun after them, and the index of the rune where that begins. In a quote and
// behind a | there is nothing to complete.
func unfinished(text []rune) (words []string, word string, start int, ok bool) {
	var b strings.Builder
	var quote rune
	begun, piped := false, false
	end := func(next int) {
		if begun {
			words = append(words, b.String())
		}
		b.Reset()
		begun, start = false, next
	}
	for i := 0; i < len(text); i++ {
		r := text[i]
		switch {
		case quote != 0 && r == quote:
			quote = 0
		case quote == '\'':
			b.WriteRune(r)
		case r == '\\' && i+1 < len(text):
			i++
			begun = true
			b.WriteRune(text[i])
		case quote != 0:
			b.WriteRune(r)
		case r == '\'' || r == '"':
			quote, begun = r, true
		case r == ';':
			end(i + 1)
			words, piped = nil, false
		case r == '|':
			piped = true
		case unicode.IsSpace(r):
			end(i + 1)
		default:
			begun = true
			b.WriteRune(r)
		}
	}
	return words, b.String(), start, quote == 0 && !piped
}
