package causefile

import (
	"errors"
	"fmt"
	"regexp"
	"strings"

	"github.com/calico-probe/calico-probe/probe"
)

// document is a cause's file, split into its parts.
type document struct {
	head  []byte // the front matter, YAML
	title string
	doc   string               // one line per paragraph
	tips  string               // the advice; "" = none
	fixes map[string]probe.Fix // by name; the default fix has the name ""
}

// Headings and words with a meaning in a file.
const (
	fence       = "---\n"
	advice      = "## Advice"
	fixHeading  = "## Fix"
	ifHeading   = "### If "
	onOperator  = "### With the operator"
	onOperator2 = "#### With the operator" // below a condition
	touches     = "Touches: "
)

// maxFile is the size limit of a file in bytes. Our largest file is a tenth of this size.
const maxFile = 64 << 10

// parse splits a cause's file into its parts.
func parse(text string) (document, error) {
	var d document
	if len(text) > maxFile {
		return d, fmt.Errorf("larger than %d KiB", maxFile>>10)
	}
	rest, found := strings.CutPrefix(text, fence)
	if !found {
		return d, errors.New("no front matter: the first line must be ---")
	}
	head, body, found := strings.Cut(rest, "\n"+fence)
	if !found {
		return d, errors.New("the front matter has no end: a line with ---")
	}
	d.head = []byte(head)
	blocks := split(body)
	if len(blocks) == 0 || !strings.HasPrefix(blocks[0], "# ") {
		return d, errors.New("no title: the text must begin with a heading")
	}
	d.title, blocks = strings.TrimPrefix(blocks[0], "# "), blocks[1:]
	var doc []string
	for len(blocks) > 0 && !strings.HasPrefix(blocks[0], "## ") {
		doc, blocks = append(doc, blocks[0]), blocks[1:]
	}
	d.doc = strings.Join(doc, "\n")
	if len(blocks) > 1 && blocks[0] == advice {
		d.tips, blocks = blocks[1], blocks[2:]
	}
	var err error
	d.fixes, err = parseFixes(blocks)
	return d, err
}

// split returns the blocks of a Markdown text. A block is a heading, a paragraph as one line, or a fenced block with
// its lines.
func split(text string) []string {
	var blocks []string
	var open []string // the current block
	code := false
	end := func() {
		if len(open) > 0 {
			separator := " "
			if strings.HasPrefix(open[0], "```") {
				separator = "\n"
			}
			blocks = append(blocks, strings.Join(open, separator))
		}
		open = nil
	}
	for line := range strings.Lines(text) {
		line = strings.TrimRight(line, "\r\n")
		switch {
		case strings.HasPrefix(line, "```") && code:
			code = false
			end()
		case strings.HasPrefix(line, "```"):
			end()
			code, open = true, []string{line}
		case !code && line == "":
			end()
		default:
			open = append(open, line)
		}
	}
	end()
	return blocks
}

// fixName matches the heading of a fix: the default fix, or a named fix that some cases use.
var fixName = regexp.MustCompile(`^## Fix(?:: ([a-z0-9]+(?:-[a-z0-9]+)*))?$`)

// parseFixes reads the fixes at the end of a file.
func parseFixes(blocks []string) (map[string]probe.Fix, error) {
	fixes := map[string]probe.Fix{}
	for len(blocks) > 0 {
		m := fixName.FindStringSubmatch(blocks[0])
		if m == nil {
			return nil, fmt.Errorf("%q is neither %q nor %q", blocks[0], fixHeading, fixHeading+": NAME")
		}
		if _, twice := fixes[m[1]]; twice {
			return nil, fmt.Errorf("%q occurs twice", blocks[0])
		}
		n := 1
		for n < len(blocks) && !strings.HasPrefix(blocks[n], "## ") {
			n++
		}
		fix, err := parseFix(blocks[1:n])
		if err != nil {
			return nil, fmt.Errorf("%s: %w", blocks[0], err)
		}
		fixes[m[1]], blocks = fix, blocks[n:]
	}
	return fixes, nil
}

// parseFix reads the blocks of one fix: a sentence, commands, conditions with their commands, and what the fix touches.
func parseFix(blocks []string) (probe.Fix, error) {
	var fix probe.Fix
	commands := &fix.Manifest // receives the next fenced block
	for i, block := range blocks {
		switch condition, conditional := strings.CutPrefix(block, ifHeading); {
		case i == 0:
			fix.Says = block
		case conditional:
			fix.OnlyIf = append(fix.OnlyIf, probe.Conditional{If: condition})
			commands = &fix.OnlyIf[len(fix.OnlyIf)-1].Manifest
		case block == onOperator:
			commands = &fix.Operator
		case block == onOperator2 && len(fix.OnlyIf) > 0:
			commands = &fix.OnlyIf[len(fix.OnlyIf)-1].Operator
		case strings.HasPrefix(block, "```"):
			lines := strings.Split(block, "\n")[1:]
			if *commands != nil || len(lines) == 0 {
				return fix, fmt.Errorf("commands without a place: %q", block)
			}
			*commands = lines
		case strings.HasPrefix(block, touches) && i == len(blocks)-1:
			fix.Radius = strings.TrimPrefix(block, touches)
		default:
			return fix, fmt.Errorf("%q is neither commands, a condition nor, at the end, %q", block, strings.TrimSpace(touches))
		}
	}
	if fix.Says == "" || fix.Radius == "" {
		return fix, fmt.Errorf("lacks its sentence or its %q", strings.TrimSpace(touches))
	}
	return fix, nil
}
