package prompt

import (
	"errors"
	"fmt"
	"slices"
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
	lines, _, err := parse(text)
	return lines, err
}

// parse is Parse, and where the commands are: the line of the text that each begins on. In a text of several lines, an
// error has the number of its own.
func parse(text string) (lines []Line, at []int, err error) {
	p := parser{runes: []rune(text), pipe: -1, number: 1}
	err = p.readAll()
	switch {
	case err != nil:
	case p.quote != 0:
		err = errors.New("a quote is not closed")
	default:
		err = p.endLine()
	}
	if err != nil {
		return nil, nil, inLine(text, p.number, err)
	}
	return p.lines, p.numbers, nil
}

// inLine puts the number of the line that an error is about before it, where the text has several.
func inLine(text string, number int, err error) error {
	if !strings.Contains(strings.TrimSpace(text), "\n") {
		return err
	}
	return fmt.Errorf("line %d: %w", number, err)
}

// parser is a text that is being read, rune by rune.
type parser struct {
	runes []rune
	at    int
	lines []Line // that have ended

	number  int   // of the line of the text that the command begins on
	numbers []int // the same of those that have ended

	line  Line
	start int // where it begins
	pipe  int // where its command of the user's machine begins, -1 = it has none
	word  strings.Builder
	from  int  // where the word begins
	begun bool // a word, if only by quotes with nothing in them
	quote rune // that is open, 0 = none
	mute  bool // a comment is open
}

// readAll reads the text, and leaves what its end has begun.
func (p *parser) readAll() error {
	for ; p.at < len(p.runes); p.at++ {
		if err := p.read(p.runes[p.at]); err != nil {
			return err
		}
	}
	return nil
}

// read reads the rune at p.at, and more where they belong to it.
func (p *parser) read(r rune) error {
	switch {
	case r == p.quote && r != 0:
		p.quote = 0
	case p.quote == '\'':
		p.word.WriteRune(r)
	case r == '\\' && p.at+1 < len(p.runes):
		p.escaped()
	case p.quote != 0:
		p.word.WriteRune(r)
	case r == '\'' || r == '"':
		p.quote, p.begun = r, true
	case r == '\n' || r == ';':
		return p.endLine()
	case r == '|' && p.pipe < 0:
		p.endWord()
		p.pipe = p.at + 1
	case r == '#' && !p.begun && p.pipe < 0:
		p.comment()
	case strings.ContainsRune("<>&", r) && p.pipe < 0:
		return errors.New(string(r) + " means nothing here unless quoted: '| cat >FILE' writes to a file, ; separates commands")
	case unicode.IsSpace(r):
		p.endWord()
	default:
		p.begun = true
		p.word.WriteRune(r)
	}
	return nil
}

// escaped reads a backslash and the rune after it.
func (p *parser) escaped() {
	p.at++
	next := p.runes[p.at]
	if p.quote == '"' && !strings.ContainsRune("\"\\$`\n", next) {
		p.word.WriteRune('\\')
	}
	if next != '\n' {
		p.begun = true
		p.word.WriteRune(next)
	}
}

// comment makes spaces of a comment, which is no part of the line's text.
func (p *parser) comment() {
	p.mute, p.runes[p.at] = true, ' '
	for p.at+1 < len(p.runes) && p.runes[p.at+1] != '\n' {
		p.at++
		p.runes[p.at] = ' '
	}
}

func (p *parser) endWord() {
	if p.begun && p.pipe < 0 {
		p.line.Words = append(p.line.Words, p.word.String())
	}
	p.word.Reset()
	p.begun, p.from = false, p.at+1
}

// endLine ends the command before p.at. One without words counts for nothing.
func (p *parser) endLine() error {
	p.endWord()
	p.line.Text = strings.TrimSpace(string(p.runes[p.start:p.at]))
	if p.pipe >= 0 {
		p.line.Pipe = strings.TrimSpace(string(p.runes[p.pipe:p.at]))
		if p.line.Pipe == "" || len(p.line.Words) == 0 || strings.HasPrefix(p.line.Pipe, "|") {
			return errors.New("| stands between a command and one of your own machine")
		}
	}
	if len(p.line.Words) > 0 {
		p.lines, p.numbers = append(p.lines, p.line), append(p.numbers, p.number)
	}
	p.number += strings.Count(string(p.runes[p.start:min(p.at+1, len(p.runes))]), "\n")
	p.line, p.pipe, p.start, p.mute = Line{}, -1, p.at+1, false
	return nil
}

// unfinished is what is being typed at the end of a text: the words of its last command,
// the word begun after them, and the index of the rune where that begins. In a quote, in a comment,
// behind a | and behind what Parse refuses there is nothing to complete.
func unfinished(text []rune) (words []string, word string, start int, ok bool) {
	p := parser{runes: slices.Clone(text), pipe: -1}
	err := p.readAll()
	return p.line.Words, p.word.String(), p.from, err == nil && p.quote == 0 && p.pipe < 0 && !p.mute
}
