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

// A screen is the report of one node for people. The answer is its first line and its last one, for a terminal that
// has scrolled:
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
	wide    bool                      // it has every answer
	session bool                      // options are no hint at its prompt
	family  func(check string) string // by which a wide one groups answers, nil = it does not
}

// newScreen writes the report of one node, or of several, once the verdict is known.
func newScreen(wide bool) func(io.Writer, Options) (Sink, error) {
	return func(w io.Writer, o Options) (Sink, error) {
		if o.Fleet {
			return newFleetTable(w, o, wide), nil
		}
		return screenTo(w, o, screen{wide: wide}), nil
	}
}

// InSession is the report for the prompt of a session, which hints at what can be typed there.
func InSession(w io.Writer, o Options) Sink { return screenTo(w, o, screen{session: true}) }

func screenTo(w io.Writer, o Options, s screen) Sink {
	s.paper, s.family = paper{o.Colour, o.Width}, o.Family
	return &document{w: w, as: func(w io.Writer, d Document) error {
		s.Document = d
		_, err := io.WriteString(w, s.text())
		return err
	}}
}

// detail is how much of a run a screen shows.
type detail struct {
	says      int  // lines of a cause's sentence
	clues     int  // observations for a cause
	lines     int  // of each of them
	against   int  // observations that contradict it
	commands  int  // of those that only read
	touches   int  // lines of what the fix touches, where no command changes anything
	notes     int  // lines of a note, or of an answer that nothing explains
	causes    int  // others than the first
	explains  int  // lines of what it explains
	open      int  // answers that no cause explains
	compared  int  // lines of the comparison
	followups bool // the commands for a condition are shown, and not only how many they are
}

// mostLines is what a screen of a terminal takes, when the prompt and a line of progress are left.
const mostLines = 30

// details are what is tried until the report fits on a screen, the most first.
var details = []detail{
	{says: 6, clues: 5, lines: 2, against: 2, commands: 6, touches: 4, notes: 1, causes: 3, explains: 2, open: 4,
		compared: 3, followups: true},
	{says: 5, clues: 4, lines: 2, against: 1, commands: 4, touches: 4, notes: 1, causes: 2, explains: 2, open: 3,
		compared: 2, followups: true},
	{says: 5, clues: 3, lines: 2, against: 1, commands: 4, touches: 3, notes: 1, causes: 2, explains: 1, open: 2,
		compared: 1, followups: true},
	{says: 4, clues: 2, lines: 2, against: 1, commands: 3, touches: 2, notes: 1, causes: 1, explains: 1, open: 1,
		followups: true},
	{says: 4, clues: 2, lines: 1, against: 1, commands: 2, touches: 2, notes: 1, causes: 1, explains: 1, open: 1,
		followups: true},
	{says: 4, clues: 2, lines: 1, against: 1, commands: 2, touches: 2, notes: 1, causes: 1, explains: 1, open: 1},
	{says: 3, clues: 1, lines: 1, commands: 1, touches: 2, notes: 1, explains: 1, open: 1},
}

// everything is the detail of a wide report.
var everything = detail{says: 100, clues: 100, lines: 100, against: 100, commands: 100, touches: 100, notes: 100,
	causes: 100, explains: 100, open: 100, compared: 100, followups: true}

func (s screen) text() string {
	lines := s.lines(everything)
	for i := 0; i < len(details) && !s.wide; i++ {
		if lines = s.lines(details[i]); len(lines) <= mostLines {
			break
		}
	}
	return strings.Join(lines, "\n") + "\n"
}

// fewAnswers is how many a session shows all: who typed a check by its name wants to see what it saw.
const fewAnswers = 12

// lines are those of the report, blank ones between its parts.
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

// answered is the wide report where nothing is wrong: the closing line first, then all answers.
func (s screen) answered(d detail) []string {
	out := s.closing()
	for _, part := range [][]string{s.rest(d), s.answers()} {
		if len(part) > 0 {
			out = append(append(out, ""), part...)
		}
	}
	return out
}

// maxQuiet is how many lines a report takes where nothing is wrong.
const maxQuiet = 5

// quiet is the report where nothing is wrong: the closing line first, and notes of a line each as far as they fit. The
// warnings of a preflight that would work are among them.
func (s screen) quiet() []string {
	out := s.closing()
	var warnings []string
	for _, r := range s.bad() {
		warnings = append(warnings, strings.TrimSpace(r.Check+" "+r.Target)+": "+r.Saw)
	}
	notes := append(s.items("warn", warnings, len(warnings), 1), s.rest(detail{})...)
	return append(out, notes[:min(len(notes), max(0, maxQuiet-len(out)))]...)
}

// wrapped are the lines of a text that begins at the margin; what continues is indented. The brackets with a cause's
// name stay on one line, if they fit.
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

// joined stands for a space at which no line is broken; printable lets none through.
const joined = "\x01"

// headline is the answer in one sentence.
func (s screen) headline() []string {
	if len(s.Causes) == 0 && (s.Word == WordHealthy || s.Word == WordReady || s.answer(true) == "") {
		return nil // the closing line says all there is
	}
	lines := s.wrapped(fmt.Sprintf("%s: %s", s.Node, s.answer(true)))
	name := printable(s.Node)
	if rest, ok := strings.CutPrefix(lines[0], name); ok {
		lines[0] = s.paint(verdictStatus(s.Word), name) + rest
	}
	return lines
}

// answer is the first cause, or what the run came to without one.
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
			checks = appendWay(checks, r.Check)
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
		if bad := s.missing(); len(s.Ways) == 0 && len(bad) > 0 { // of preflight, which starts nothing
			return "a run should work, but that is not certain: " + bad[0].Saw
		}
		if s.Counts[probe.Unknown] == 0 {
			return "no verdict: the node itself was not checked"
		}
		return fmt.Sprintf("no verdict: %s missing", plural(s.Counts[probe.Unknown], "answer"))
	}
	return "" // a session's word for what is not asked to its end
}

// wasInterrupted reports whether a result is what this client says of an interrupted run. What a node says came by an
// access method.
func wasInterrupted(r Located) bool {
	return r.Check == probe.CheckAnswered && r.Node == "" && r.Way == "" && r.Saw == Interrupted
}

// answerOf is a cause in one sentence, its name and its confidence.
func answerOf(c probe.Cause, confidence string) string {
	return fmt.Sprintf("%s  [%s, %s]", cmp.Or(c.Title, c.Says), shortName(c), confidence)
}

// maxName is how many bytes of a cause's name a sentence has room for.
const maxName = 100

// shortName is a cause's name for a sentence. What the cause is about may be a node's own text, which must not look
// like the brackets around the name.
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

// works says by which access method a run would work, as preflight found.
func (s screen) works() string {
	var ways []string
	lacking := map[string]bool{}
	for _, r := range s.Results {
		if r.Way != "" && r.Way != "api" {
			ways = appendWay(ways, r.Way)
			lacking[r.Way] = lacking[r.Way] || !quiet(r.Status)
		}
	}
	if at := slices.IndexFunc(ways, func(way string) bool { return !lacking[way] }); at >= 0 {
		return fmt.Sprintf("yes, 'calico-probe run' works via %s", ways[at])
	}
	return "yes, 'calico-probe run' works"
}

// missing are what keeps a run from working, as preflight found: of the access method that a run tries first, or
// else of any.
func (s screen) missing() []Located {
	bad := s.bad()
	first := slices.DeleteFunc(slices.Clone(bad), func(r Located) bool {
		return r.Way != "" && (r.Way != "pod" || r.Status != probe.Fail)
	})
	if len(first) > 0 {
		return first
	}
	return bad
}

// bad are the answers about the node that are not good, the worst first.
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

// item are the lines of a text beside a word at the margin, at most so many; a longer text ends with "…".
func (s screen) item(word, text string, most int) []string {
	lines := probe.Wrap(printable(text), s.columns()-marginText)
	if most = max(most, 1); len(lines) > most {
		last := lines[most-1] + " " + lines[most] // of which a part may fit
		lines = lines[:most]
		lines[most-1] = cut(last, s.columns()-marginText-2) + " …"
	}
	for i, l := range lines {
		lines[i] = strings.TrimRight(fmt.Sprintf("  %-*s%s", marginText-marginWord, word, l), " ")
		word = ""
	}
	return lines
}

// cut is a line of at most so many bytes, ended at a space of its second half or else within a word.
func cut(line string, most int) string {
	if len(line) <= most {
		return line
	}
	if at := strings.LastIndex(line[:most], " "); at > most/2 {
		return line[:at]
	}
	return strings.ToValidUTF8(line[:most], "")
}

// items are texts beside one word, each of at most so many lines. How many are left out is the last line, unless all
// are.
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

// hint is what more the program's options show, or a command at a session's prompt.
func (s screen) hint(option, prompt string) string {
	if s.session {
		return prompt
	}
	return option
}

// closing says the answer again, and how the run went.
func (s screen) closing() []string {
	how := []string{answers(s.Counts, s.checks())}
	if took := s.Elapsed.Round(100 * time.Millisecond); took > 0 {
		how[0] += " in " + took.String()
	}
	if len(s.Causes) == 0 {
		how[0] = counted(s.Counts) + "; " + how[0]
	}
	if ways := s.Document.asked(); len(ways) > 0 {
		how[0] += " via " + strings.Join(ways, ", ")
	}
	switch {
	case s.Cluster == nil:
	case s.wide:
		how = append(how, fmt.Sprintf("cluster %s, %s", s.Cluster, s.began().UTC().Format("2006-01-02 15:04:05 UTC")))
	default:
		how = append(how, "cluster "+cmp.Or(s.Cluster.Context, s.Cluster.Server))
	}
	if s.Word == WordHealthy && slices.Equal(s.Document.asked(), []string{"api"}) {
		how = append(how, "only the API was checked, not the node itself")
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
