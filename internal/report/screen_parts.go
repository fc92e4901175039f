package report

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/calico-probe/calico-probe/internal/page"
	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/probe/facts"
)

// evidence returns the evidence for the first cause or, if there is no cause, the bad answers.
func (s screen) evidence(d detail) []string {
	if len(s.Causes) == 0 {
		bad := s.bad()
		if s.Word == WordNotReady {
			bad = s.missing()
		}
		rights, bad := lacking(bad)
		var out []string
		for _, r := range bad {
			out = append(out, r.named()+": "+r.Saw)
		}
		out = s.items("seen", out, d.clues+2, d.lines)
		if len(rights) > 0 {
			out = append(out, s.item("rights", strings.Join(rights, ", ")+
				"; 'calico-probe preflight' prints the command that grants the missing rights", d.says)...)
		}
		return out
	}
	c := s.Causes[0]
	var out []string
	if c.Title != "" { // otherwise the headline has it
		out = s.item("what", c.Says, d.says)
	}
	out = append(out, s.items("evidence", seen(c.For, d.lines > 1), d.clues, d.lines)...)
	out = append(out, s.items("but", seen(c.Against, d.lines > 1), d.against, d.lines)...)
	if len(c.Missing) > 0 {
		out = append(out, s.item("unknown", strings.Join(c.Missing, "; "), d.lines)...)
	}
	return out
}

// lacking separates missing rights from the other answers. It returns each right once.
func lacking(all []Located) (rights []string, rest []Located) {
	for _, r := range all {
		right := r.Facts.Str(facts.LacksRight)
		switch {
		case right == "":
			rest = append(rest, r)
		case !slices.Contains(rights, right):
			rights = append(rights, right)
		}
	}
	for i, right := range rights {
		if i > 0 {
			rights[i] = strings.TrimPrefix(right, "no right to ")
		}
	}
	return rights, rest
}

// seen returns observations as text, with or without their targets. On a single line, a target would leave too little
// room for the observation.
func seen(clues []probe.Clue, target bool) []string {
	var out []string
	for _, c := range clues {
		name := c.Check
		if target && c.Target != "" {
			name += " " + c.Target
		}
		if c.Node != "" {
			name += " on " + c.Node
		}
		out = append(out, name+": "+c.Saw)
	}
	return out
}

// actions returns what to check and what to change.
func (s screen) actions(d detail) []string {
	if len(s.Causes) == 0 {
		if len(s.Unexplained) == 0 {
			return nil
		}
		id := printable(s.Unexplained[0])
		return s.item("next", s.hint("'calico-probe explain "+probe.Quote(id)+"' explains what usually breaks it",
			"'explain "+probe.Quote(id)+"' explains what usually breaks it, 'run "+probe.Quote(id)+"' checks it again"), 2)
	}
	fix := s.Causes[0].Fix
	check, change := steps(fix)
	var out []string
	if len(check) > 0 {
		out = append(out, s.item("check", readsOnlyWord(check), 1)...)
		out = append(out, s.commands(check, d.commands)...)
	}
	out = append(out, s.item("fix", fix.Says, everything.says)...)
	hidden, more := 0, 0
	for _, block := range change {
		switch {
		case block.If == "":
			out = append(out, s.commands(block.Commands, everything.commands)...)
		case d.followups:
			out = append(out, s.item("only if", block.If+":", everything.says)...)
			out = append(out, s.commands(block.Commands, everything.commands)...)
		default:
			hidden++
			more += len(block.Commands)
		}
	}
	touches := d.touches
	if len(change) > hidden { // a user must see all of a change before pasting it
		touches = everything.touches
	}
	if fix.Radius != "" {
		out = append(out, s.item("touches", fix.Radius, touches)...)
	}
	if hidden > 0 {
		text := plural(more, "more command") + " for certain conditions" + s.hint(": -o wide", "")
		out = append(out, s.item("only if", text, 1)...)
	}
	return out
}

// readsOnlyWord describes what the commands under check touch.
func readsOnlyWord(check []string) string {
	placed := func(c string) bool {
		if strings.Contains(c, "--via local") || strings.Contains(c, "--via api") {
			return false
		}
		return strings.HasPrefix(c, "calico-probe run") || strings.HasPrefix(c, "calico-probe shell")
	}
	if slices.ContainsFunc(check, placed) {
		return "reads only; places a probe"
	}
	return "reads only"
}

// steps splits a fix's commands, below their conditions, into read-only checks and changes. A read-only command after a
// change stays with the change, because it verifies the change.
func steps(fix probe.Fix) (check []string, change []probe.Block) {
	followups := map[string]bool{}
	for _, c := range fix.OnlyIf {
		followups[c.If] = true
	}
	for _, block := range fix.Blocks() {
		rest := block.Commands
		for !followups[block.If] && len(rest) > 0 && readsOnly(rest[0]) {
			if !slices.Contains(check, rest[0]) {
				check = append(check, rest[0])
			}
			rest = rest[1:]
		}
		if len(rest) > 0 {
			change = append(change, probe.Block{If: block.If, Commands: rest})
		}
	}
	return check, change
}

// commands returns lines for copying. They are not wrapped and have no comments, because zsh would parse a comment as
// arguments.
func (s screen) commands(all []string, most int) []string {
	var out []string
	for i, c := range all {
		if i == most {
			return append(out, s.item("", "… "+plural(len(all)-i, "more command")+s.hint(": -o wide", ""), 1)...)
		}
		command, note := noted(c)
		if note != "" {
			out = append(out, s.item("", note, 2)...)
		}
		if command != "" {
			out = append(out, fmt.Sprintf("%*s%s", marginText, "", printable(command)))
		}
	}
	return out
}

// noted splits a command from its comment, which becomes a note above it. Either may be empty.
func noted(line string) (command, note string) {
	if rest, ok := strings.CutPrefix(line, "#"); ok {
		return "", strings.TrimSpace(rest)
	}
	command, note, _ = strings.Cut(line, commentAfter)
	if note != "" {
		note = strings.TrimRight(note, ":.") + ":"
	}
	return command, note
}

// commentAfter separates a command from its comment. TestNoted checks that all rules use it.
const commentAfter = "  # "

// pastes returns commands below their notes, in the form for pages and tickets.
func pastes(all []string) []page.Paste {
	var out []page.Paste
	for _, line := range all {
		command, note := noted(line)
		if note != "" || len(out) == 0 {
			out = append(out, page.Paste{Note: note})
		}
		if last := &out[len(out)-1]; command != "" {
			last.Commands = append(last.Commands, command)
		}
	}
	return out
}

// rest returns the consequences of the first cause, the other causes, and the unexplained answers.
func (s screen) rest(d detail) []string {
	var out []string
	if len(s.Causes) > 0 {
		out = s.others(d)
		if text := s.explains(s.Causes[0]); text != "" {
			out = append(out, s.item("explains", text, d.explains)...)
		}
		out = append(out, s.items("unexplained", s.unexplained(d.notes > 1), d.open, d.notes)...)
	}
	out = append(out, s.items("compared", s.contrast(), d.compared, d.notes)...)
	for _, r := range s.own() {
		if quiet(r.Status) && lined(r.Result) {
			out = append(out, s.item("note", r.named()+": "+r.Saw, 1+d.notes)...)
		}
	}
	if unknown := s.Counts[probe.Unknown]; s.Word == WordIncomplete && len(s.Causes) > 0 {
		out = append(out, s.item("note", s.lacks(unknown), 1+d.notes)...)
	}
	if text := s.fewer(); text != "" {
		out = append(out, s.item("note", text, 1+2*d.notes)...)
	}
	if s.Outside != "" {
		out = append(out, s.item("note", notFromOutside(s.Outside), 1+d.notes)...)
	}
	return out
}

// explains returns a cause's consequences other than its evidence. If it is the only cause, explains also returns the
// number of bad answers that it explains.
func (s screen) explains(c probe.Cause) string {
	text := follows(c)
	bad := s.bad()
	left := slices.DeleteFunc(slices.Clone(bad), func(r Located) bool { return !slices.Contains(s.Unexplained, r.Check) })
	if text == "" || len(s.Causes) > 1 || len(bad) == 0 {
		return text
	}
	return fmt.Sprintf("%d of %s: the evidence, %s", len(bad)-len(left), plural(len(bad), "bad answer"), text)
}

// lacks returns why a run with a cause has no verdict.
func (s screen) lacks(unknown int) string {
	methods := slices.DeleteFunc(s.Document.methods(), func(method string) bool { return method == "api" })
	if len(methods) == 0 {
		return "the node was not checked: the cause is inferred from outside"
	}
	return plural(unknown, "answer") + " missing, so there may be more causes"
}

// others returns all causes except the first, one per line. In a wide report, they have their evidence and fix.
func (s screen) others(d detail) []string {
	if s.wide {
		var out []string
		for _, c := range s.Causes[1:] {
			one := s
			one.Causes = []probe.Cause{c}
			out = append(out, s.wrapped("also: "+one.answer(true))...)
			out = append(append(append(out, one.evidence(d)...), one.actions(d)...), "")
		}
		return out
	}
	var texts []string
	for _, c := range s.Causes[min(1, len(s.Causes)):] {
		texts = append(texts, fmt.Sprintf("%s, %s: %s", shortName(c), c.Confidence, cmp.Or(c.Title, c.Says)))
	}
	return s.items("also", texts, d.causes, 1)
}

// unexplained returns the worst unexplained bad answer of each check. For access methods, it returns one answer for
// each method that failed. If each answer has only one line, it omits the targets.
func (s screen) unexplained(target bool) []string {
	var out []string
	had := map[string]bool{}
	for _, r := range s.bad() {
		if slices.Contains(s.Unexplained, r.Check) && (!had[r.Check] || r.Check == probe.CheckPlaced) {
			had[r.Check] = true
			name := printable(r.Check)
			if target || r.Check == probe.CheckPlaced {
				name = r.named()
			}
			out = append(out, name+": "+r.Saw)
		}
	}
	for _, id := range s.Unexplained {
		if !had[id] {
			out = append(out, id)
		}
	}
	return out
}

// contrast returns the comparison with baseline nodes, without the parts that the causes already mention.
func (s screen) contrast() []string {
	var out []string
	for _, line := range s.Contrast[min(1, len(s.Contrast)):] { // the first line is the heading
		check, _, _ := strings.Cut(strings.TrimSpace(line), " ")
		if s.wide || len(s.Causes) == 0 || slices.Contains(s.Unexplained, check) {
			out = append(out, strings.TrimSpace(line))
		}
	}
	return out
}

// skippedChecks returns the number of checks whose only answer is skip.
func (d Document) skippedChecks() int {
	only := map[string]bool{}
	for _, r := range d.own() {
		was, had := only[r.Check]
		only[r.Check] = r.Status == probe.Skip && (was || !had)
	}
	count := 0
	for _, is := range only {
		if is {
			count++
		}
	}
	return count
}

// answers returns all answers, grouped by the checks' families, with the bad answers first.
func (s screen) answers() []string {
	var b strings.Builder
	t := &table{paper: paper{s.colour, s.width}, wide: true, family: s.family, node: s.Node}
	if t.family == nil {
		t.family = func(string) string { return "answers" }
	}
	for _, r := range s.Results {
		t.waiting = append(t.waiting, row{cmp.Or(r.Node, s.Node), r.Result})
	}
	t.grouped(&b)
	return strings.Split(strings.TrimRight(b.String(), "\n"), "\n")
}
