package prompt

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode"
)

// Line is one command as typed: its words, and the pipe for its output.
type Line struct {
	Words []string
	Pipe  string // a local command; "" = none
	Text  string // as typed
}

// Parse parses commands. Words are quoted as in a shell with ' " and \. A newline or ; ends a command, and # starts a
// comment. The text after | goes unchanged to the local shell, up to the end of the line or a ; outside quotes.
func Parse(text string) ([]Line, error) {
	lines, _, err := parse(text)
	return lines, err
}

// parse does the same as Parse, and also returns the line number of each command. If the text has several lines, an
// error has its line number.
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

// inLine prefixes an error with its line number, if the text has several lines.
func inLine(text string, number int, err error) error {
	if !strings.Contains(strings.TrimSpace(text), "\n") {
		return err
	}
	return fmt.Errorf("line %d: %w", number, err)
}

// parser reads a text rune by rune.
type parser struct {
	runes []rune
	at    int
	lines []Line // finished ones

	number  int   // line number of the current command
	numbers []int // line numbers of the finished commands

	line  Line
	start int // start of the current command
	pipe  int // start of its local command; -1 = none
	word  strings.Builder
	from  int  // start of the current word
	begun bool // a word has begun, even if it is only empty quotes
	quote rune // the open quote; 0 = none
	mute  bool // inside a comment
}

// readAll reads the text, and leaves an unfinished command in the parser.
func (p *parser) readAll() error {
	for ; p.at < len(p.runes); p.at++ {
		if err := p.read(p.runes[p.at]); err != nil {
			return err
		}
	}
	return nil
}

// read reads the rune at p.at, and the runes that belong to it.
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

// comment replaces a comment with spaces, which removes it from the line's text.
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

// endLine ends the command before p.at. A command without words is dropped.
func (p *parser) endLine() error {
	p.endWord()
	p.line.Text = strings.TrimSpace(string(p.runes[p.start:p.at]))
	if p.pipe >= 0 {
		p.line.Pipe = strings.TrimSpace(string(p.runes[p.pipe:p.at]))
		if p.line.Pipe == "" || len(p.line.Words) == 0 || strings.HasPrefix(p.line.Pipe, "|") {
			return errors.New("| needs a command before it and a local command after it")
		}
	}
	if len(p.line.Words) > 0 {
		p.lines, p.numbers = append(p.lines, p.line), append(p.numbers, p.number)
	}
	p.number += strings.Count(string(p.runes[p.start:min(p.at+1, len(p.runes))]), "\n")
	p.line, p.pipe, p.start, p.mute = Line{}, -1, p.at+1, false
	return nil
}

// unfinished returns the command that is being typed at the end of a text: its complete words, the last word, and the
// start of that word as a rune index. ok is false in a quote, in a comment, after a | and after invalid input: there,
// nothing can be completed.
func unfinished(text []rune) (words []string, word string, start int, ok bool) {
	p := parser{runes: slices.Clone(text), pipe: -1}
	err := p.readAll()
	return p.line.Words, p.word.String(), p.from, err == nil && p.quote == 0 && p.pipe < 0 && !p.mute
}
