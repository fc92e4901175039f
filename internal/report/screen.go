package report

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"
	"unicode"

	"github.com/calico-probe/calico-probe/probe"
)

// A screen is the report about one node for people. The answer is in the first line and also in the last line, because
// a terminal may have scrolled to the end:
//
//	node-b: TITLE  [ID, confidence]
//
//	  what this node has, the evidence, what contradicts it
//
//	  check: commands that only read; fix: what to change, and what that touches
//
//	  other causes, what the first one explains, what no cause explains
//
//	fault on node-b: TITLE [ID, confidence]; how the run went
type screen struct {
	Document
	paper
	wide    bool                      // shows every answer
	session bool                      // at a session's prompt, where hints cannot name options
	family  func(check string) string // returns an answer's group in a wide report; nil = no groups
}

// newScreen returns the sink that writes the report about one or several nodes once the verdict is known.
func newScreen(wide bool) func(io.Writer, Options) (Sink, error) {
	return func(w io.Writer, o Options) (Sink, error) {
		if o.Fleet {
			return newFleetTable(w, o, wide), nil
		}
		return screenTo(w, o, screen{wide: wide}), nil
	}
}

// InSession returns the sink for reports at a session's prompt. The hints in these reports are session commands.
func InSession(w io.Writer, o Options) Sink { return screenTo(w, o, screen{session: true}) }

func screenTo(w io.Writer, o Options, s screen) Sink {
	s.paper, s.family = paper{o.Colour, o.Width}, o.Family
	return &document{w: w, as: func(w io.Writer, d Document) error {
		s.Document = d
		_, err := io.WriteString(w, s.text())
		return err
	}}
}

// detail limits what a screen shows of a run.
type detail struct {
	says      int  // lines of a cause's sentence (Says)
	clues     int  // observations for a cause
	lines     int  // lines of each observation
	against   int  // observations that contradict the cause
	commands  int  // commands that only read
	touches   int  // lines about the effect of a fix without changing commands
	notes     int  // lines of a note, or of an unexplained answer
	causes    int  // number of causes other than the first
	explains  int  // lines about the first cause's consequences
	open      int  // unexplained answers
	compared  int  // lines of the comparison
	followups bool // show conditional commands instead of only their number
}

// maxLines is the length of a report on one screen of a terminal, with room for the prompt and a progress line.
const maxLines = 30

// details lists the details to try, the fullest first, until the report fits on a screen.
var details = []detail{
	{says: 6, clues: 5, lines: 2, against: 2, commands: 6, touches: 4, notes: 1, causes: 3, explains: 2, open: 4,
		compared: 3, followups: true},
	{says: 6, clues: 4, lines: 2, against: 1, commands: 4, touches: 4, notes: 1, causes: 2, explains: 2, open: 3,
		compared: 2, followups: true},
	{says: 6, clues: 3, lines: 2, against: 1, commands: 4, touches: 3, notes: 1, causes: 2, explains: 1, open: 2,
		compared: 1, followups: true},
	{says: 6, clues: 2, lines: 2, against: 1, commands: 3, touches: 2, notes: 1, causes: 1, explains: 1, open: 1,
		followups: true},
	{says: 6, clues: 2, lines: 1, against: 1, commands: 2, touches: 2, notes: 1, causes: 1, explains: 1, open: 1,
		followups: true},
	{says: 6, clues: 2, lines: 1, against: 1, commands: 2, touches: 2, notes: 1, causes: 1, explains: 1, open: 1},
	{says: 6, clues: 1, lines: 1, commands: 1, touches: 2, notes: 1, explains: 1, open: 1},
	{says: 3, clues: 1, lines: 1, commands: 1, touches: 2, notes: 1, explains: 1, open: 1},
}

// everything is the detail for a wide report.
var everything = detail{says: 100, clues: 100, lines: 100, against: 100, commands: 100, touches: 100, notes: 100,
	causes: 100, explains: 100, open: 100, compared: 100, followups: true}

func (s screen) text() string {
	lines := s.lines(everything)
	for i := 0; i < len(details) && !s.wide && (i == 0 || len(lines) > maxLines); i++ {
		lines = s.lines(details[i])
	}
	return strings.Join(lines, "\n") + "\n"
}

// fewAnswers is the maximum number of answers that a session shows completely: a user who typed a check's name wants
// its answer.
const fewAnswers = 12

// lines returns the report, with blank lines between its parts.
func (s screen) lines(d detail) []string {
	out := s.headline()
	switch {
	case out == nil && !s.wide && !s.session:
		return s.quiet()
	case out == nil && s.wide:
		return s.answered(d)
	}
	parts := [][]string{s.evidence(d), s.actions(d), s.rest(d)}
	if s.wide || s.session && len(s.own()) <= fewAnswers {
		parts = append(parts, s.answers())
	}
	for _, part := range parts {
		if len(part) > 0 {
			out = append(append(out, ""), part...)
		}
	}
	if len(out) > len(s.headline()) || len(s.Causes) > 0 {
		out = append(out, "")
	}
	return append(out, s.closing()...)
}

// answered returns the wide report of a healthy node: the closing line, then all answers.
func (s screen) answered(d detail) []string {
	out := s.closing()
	for _, part := range [][]string{s.rest(d), s.answers()} {
		if len(part) > 0 {
			out = append(append(out, ""), part...)
		}
	}
	return out
}

// maxQuiet is the maximum number of lines in a healthy node's report.
const maxQuiet = 5

// quiet returns a healthy node's report: the closing line, then as many one-line notes as fit. The notes include a
// preflight's warnings.
func (s screen) quiet() []string {
	out := s.closing()
	var warnings []string
	for _, r := range s.bad() {
		warnings = append(warnings, strings.TrimSpace(r.Check+" "+r.Target)+": "+r.Saw)
	}
	notes := append(s.items("warn", warnings, len(warnings), 1), s.rest(detail{})...)
	return append(out, notes[:min(len(notes), max(0, maxQuiet-len(out)))]...)
}

// wrapped returns the lines of a text at the margin, with indented continuation lines. If the brackets with a cause's
// name fit on one line, they are not split.
func (s screen) wrapped(text string) []string {
	text = printable(text)
	at, end := strings.LastIndex(text, " ["), strings.LastIndex(text, "]")
	if at > 0 && end > at && end-at < s.columns()-2 {
		text = text[:at+1] + strings.ReplaceAll(text[at+1:end], " ", joined) + text[end:]
	}
	lines := probe.Wrap(text, s.columns()-2)
	for i := range lines {
		lines[i] = strings.ReplaceAll(lines[i], joined, " ")
		if i > 0 {
			lines[i] = "  " + lines[i]
		}
	}
	return lines
}

// joined marks a space at which lines must not break. Foreign texts cannot contain it, because printable removes it.
const joined = "\x01"

// headline returns the conclusion in one sentence.
func (s screen) headline() []string {
	if len(s.Causes) == 0 && (s.Word == WordHealthy || s.Word == WordReady || s.answer(true) == "") {
		return nil // the closing line has all information
	}
	lines := s.wrapped(fmt.Sprintf("%s: %s", s.Node, s.answer(true)))
	name := printable(s.Node)
	if rest, ok := strings.CutPrefix(lines[0], name); ok {
		lines[0] = s.paint(verdictStatus(s.Word), name) + rest
	}
	return lines
}

// answer returns the first cause or, if there is none, the run's conclusion.
func (s screen) answer(whole bool) string {
	if len(s.Causes) > 0 {
		c := s.Causes[0]
		confidence := string(c.Confidence)
		if whole {
			confidence += " confidence"
		}
		return answerOf(c, confidence)
	}
	bad := s.bad()
	checks := s.Unexplained
	for _, r := range bad {
		if len(s.Unexplained) == 0 {
			checks = appendNew(checks, r.Check)
		}
	}
	switch s.Word {
	case WordHealthy:
		return "no fault found"
	case WordWarnings:
		return fmt.Sprintf("no fault, %s that no known cause explains", plural(len(bad), "warning"))
	case WordFault:
		return fmt.Sprintf("no known cause explains %s: %s", plural(len(bad), "bad answer"),
			strings.Join(checks, ", "))
	case WordReady:
		return s.works()
	case WordNotReady:
		if missing := s.missing(); len(missing) > 0 {
			return missing[0].Saw
		}
	case WordIncomplete:
		if slices.ContainsFunc(s.Results, wasInterrupted) {
			return "no verdict: the run was interrupted"
		}
		if bad := s.missing(); len(s.Methods) == 0 && len(bad) > 0 { // preflight, which does not start a probe
			return "a run should work, but that is not certain: " + bad[0].Saw
		}
		if s.Counts[probe.Unknown] == 0 {
			return "no verdict: the node itself was not checked"
		}
		return fmt.Sprintf("no verdict: %s missing", plural(s.Counts[probe.Unknown], "answer"))
	}
	return "" // a session's run without a verdict
}

// wasInterrupted reports whether a result is this client's own result about an interrupted run. A node's result has an
// access method, so a node cannot fake this result.
func wasInterrupted(r Located) bool {
	return r.Check == probe.CheckAnswered && r.Node == "" && r.Method == "" && r.Saw == Interrupted
}

// answerOf returns a cause as a sentence with its name and confidence.
func answerOf(c probe.Cause, confidence string) string {
	return fmt.Sprintf("%s  [%s, %s]", cmp.Or(c.Title, c.Says), shortName(c), confidence)
}

// maxName is the maximum length of a cause's name in a sentence, in bytes.
const maxName = 100

// shortName returns a cause's name for a sentence. Its subject may be a node's own text, which must not look like the
// brackets around the name.
func shortName(c probe.Cause) string {
	return strings.Map(func(r rune) rune {
		switch {
		case unicode.Is(unicode.Ps, r):
			return '('
		case unicode.Is(unicode.Pe, r):
			return ')'
		}
		return r
	}, probe.Cut(causeName(c), maxName))
}

// works returns a successful preflight's conclusion, with the access method that works.
func (s screen) works() string {
	var methods []string
	lacking := map[string]bool{}
	for _, r := range s.Results {
		if r.Method != "" && r.Method != "api" {
			methods = appendNew(methods, r.Method)
			lacking[r.Method] = lacking[r.Method] || !quiet(r.Status)
		}
	}
	if at := slices.IndexFunc(methods, func(method string) bool { return !lacking[method] }); at >= 0 {
		return fmt.Sprintf("yes, 'calico-probe run' works via %s", methods[at])
	}
	return "yes, 'calico-probe run' works"
}

// missing returns preflight's results that prevent a run. These are the results for the access method that a run tries
// first or, if there are none, for any method.
func (s screen) missing() []Located {
	bad := s.bad()
	first := slices.DeleteFunc(slices.Clone(bad), func(r Located) bool {
		return r.Method != "" && (r.Method != "pod" || r.Status != probe.Fail)
	})
	if len(first) > 0 {
		return first
	}
	return bad
}

// bad returns the bad answers about the node, worst first.
func (s screen) bad() []Located {
	all := slices.DeleteFunc(s.own(), func(r Located) bool { return quiet(r.Status) })
	slices.SortStableFunc(all, func(a, b Located) int {
		return cmp.Or(cmp.Compare(urgency(a.Status), urgency(b.Status)), cmp.Compare(a.Check, b.Check),
			cmp.Compare(a.Target, b.Target), cmp.Compare(a.From, b.From))
	})
	return all
}

// Columns of the words at the margin.
const (
	marginWord = 2
	marginText = marginWord + 12
)

// item returns a text's lines next to a word at the margin. If the text has more than most lines, it ends with "…".
func (s screen) item(word, text string, most int) []string {
	lines := probe.Wrap(printable(text), s.columns()-marginText)
	if most = max(most, 1); len(lines) > most {
		last := lines[most-1] + " " + lines[most] // a part of the next line may fit
		lines = lines[:most]
		lines[most-1] = cut(last, s.columns()-marginText-2) + " …"
	}
	for i, l := range lines {
		lines[i] = strings.TrimRight(fmt.Sprintf("  %-*s%s", marginText-marginWord, word, l), " ")
		word = ""
	}
	return lines
}

// cut shortens a line to at most most bytes. It cuts at a space in the line's second half or, if there is none, within
// a word.
func cut(line string, most int) string {
	if len(line) <= most {
		return line
	}
	if at := strings.LastIndex(line[:most], " "); at > most/2 {
		return line[:at]
	}
	return strings.ToValidUTF8(line[:most], "")
}

// items returns texts next to one word. Each text has at most lines lines. If items omits some texts, the last line has
// their number.
func (s screen) items(word string, texts []string, most, lines int) []string {
	if most == 0 {
		return nil
	}
	var out []string
	for i, text := range texts {
		if i == most {
			return append(out, s.item(word, fmt.Sprintf("… %d more%s", len(texts)-i, s.hint(" with -o wide", "")), 1)...)
		}
		out = append(out, s.item(word, text, lines)...)
		word = ""
	}
	return out
}

// hint returns the option that shows more or, at a session's prompt, the command.
func (s screen) hint(option, prompt string) string {
	if s.session {
		return prompt
	}
	return option
}

// closing repeats the conclusion, and describes the run.
func (s screen) closing() []string {
	how := []string{answers(s.Counts, s.checks())}
	if took := s.Elapsed.Round(100 * time.Millisecond); took > 0 {
		how[0] += " in " + took.String()
	}
	if len(s.Causes) == 0 {
		how[0] = counted(s.Counts) + "; " + how[0]
	}
	if methods := s.Document.methods(); len(methods) > 0 {
		how[0] += " via " + strings.Join(methods, ", ")
	}
	switch {
	case s.Cluster == nil:
	case s.wide:
		how = append(how, fmt.Sprintf("cluster %s, %s", s.Cluster, s.began().UTC().Format("2006-01-02 15:04:05 UTC")))
	default:
		how = append(how, "cluster "+cmp.Or(s.Cluster.Context, s.Cluster.Server))
	}
	if s.Word == WordHealthy && slices.Equal(s.Document.methods(), []string{"api"}) {
		how = append(how, "only the API was checked, not the node")
	}
	if !s.wide {
		how = append(how, s.hint("all answers: -o wide", ""))
	}
	if len(s.Causes) > 1 {
		how = append([]string{plural(len(s.Causes)-1, "more cause")}, how...)
	}
	how = slices.DeleteFunc(how, func(text string) bool { return text == "" })
	if answer := s.answer(false); answer != "" {
		how = append([]string{answer}, how...)
	}
	lines := s.wrapped(fmt.Sprintf("%s on %s: %s", s.Word, s.Node, strings.Join(how, "; ")))
	lines[0] = s.paint(verdictStatus(s.Word), s.Word) + strings.TrimPrefix(lines[0], s.Word)
	return lines
}
