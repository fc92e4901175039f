package live

import (
	"fmt"
	"strings"
	"time"
	"unicode/utf8"

	tea "charm.land/bubbletea/v2"

	"github.com/calico-probe/calico-probe/internal/mesh"
	"github.com/calico-probe/calico-probe/internal/ui"
	"github.com/calico-probe/calico-probe/probe"
)

// always is the number of fixed lines: two lines of the head, the column names, the message and the keys.
const always = 5

// detailed is the number of lines that the details take.
const detailed = 4

// room returns the number of rows that fit.
func (t *table) room() int {
	n := t.height - always - min(1, len(t.sum.Lost))
	if t.details {
		n -= detailed
	}
	return max(1, n)
}

// states are the words and colours of states.
var states = map[mesh.State]struct{ word, colour string }{
	mesh.Fails: {"fails", "\x1b[1;31m"}, mesh.Loses: {"loses", "\x1b[33m"}, mesh.Silent: {"silent", "\x1b[35m"},
	mesh.Works: {"ok", ""},
}

func (t *table) View() tea.View {
	lines := []string{t.head(), t.counts()}
	if n := len(t.sum.Lost); n > 0 {
		more := ""
		if n > 1 {
			more = fmt.Sprintf("; and %d more nodes", n-1)
		}
		lines = append(lines, ui.Cut("no answer from "+probe.Line(t.sum.Lost[0]), max(20, t.width-len(more)))+more)
	}
	lines = append(lines, t.shown()...)
	for len(lines) < t.height-2-t.tail() {
		lines = append(lines, "")
	}
	if t.details {
		lines = append(lines, t.about()...)
	}
	lines = append(lines, ui.Cut(t.note, t.width), ui.Cut(t.foot(), t.width))
	for i := range lines {
		lines[i] = strings.TrimRight(lines[i], " ")
	}
	v := tea.NewView(strings.Join(lines, "\n"))
	v.AltScreen = true
	return v
}

func (t *table) tail() int {
	if t.details {
		return detailed
	}
	return 0
}

// head returns the title, with the round and the time since the start.
func (t *table) head() string {
	took := time.Duration(0)
	if !t.now.IsZero() {
		took = t.now.Sub(t.began)
	}
	how := ""
	if t.paused {
		how = "  PAUSED"
	}
	return ui.Cut(fmt.Sprintf("%s  round %d, %s%s", t.title, t.sum.Round, took.Round(time.Second), how), t.width)
}

// counts returns the number of paths in each state.
func (t *table) counts() string {
	if t.sum.Paths == 0 {
		return "starting probes on the nodes; no report yet"
	}
	var parts []string
	for _, s := range []struct {
		n     int
		says  string
		state mesh.State
	}{
		{t.sum.Fail, "%d fail", mesh.Fails}, {t.sum.Lossy, "%d with loss", mesh.Loses},
		{t.sum.Silent, "%d without a report", mesh.Silent},
	} {
		if s.n > 0 {
			parts = append(parts, t.paint(fmt.Sprintf(s.says, s.n), s.state))
		}
	}
	switch n := len(t.sum.Awaited); {
	case n > 0:
		parts = append(parts, fmt.Sprintf("no report yet from %d nodes", n))
	case len(parts) == 0:
		parts = []string{"all work"}
	}
	return fmt.Sprintf("%d paths: %s", t.sum.Paths, strings.Join(parts, ", "))
}

// paint colours a text if colours are on.
func (t *table) paint(text string, s mesh.State) string {
	if colour := states[s].colour; t.colour && colour != "" {
		return colour + text + "\x1b[0m"
	}
	return text
}

// numbers is the width of the columns between the names and the last rounds.
const numbers = 56

// shown returns the visible rows, below the column names.
func (t *table) shown() []string {
	shown := t.rows[min(t.top, len(t.rows)):min(t.top+t.room(), len(t.rows))]
	name := len("from")
	for _, r := range shown {
		name = max(name, utf8.RuneCountInString(r.From), utf8.RuneCountInString(r.To))
	}
	name = min(name, max(8, (t.width-numbers-8)/2))
	spark := max(0, t.width-numbers-2*name)
	lines := []string{fmt.Sprintf("  %-*s  %-*s  %-5s %-7s %6s %9s %9s %9s  %s", name, "FROM", name, "TO", "PLANE", "STATE",
		"LOSS", "NOW", "MEDIAN", "WORST", ui.Cut("LAST ROUNDS", max(2, spark)))}
	for i, r := range shown {
		mark := ' '
		if t.top+i == t.at {
			mark = '>'
		}
		state := t.paint(fmt.Sprintf("%-7s", states[r.State].word), r.State)
		lines = append(lines, fmt.Sprintf("%c %-*s  %-*s  %-5s %s %5.0f%% %9s %9s %9s  %s", mark,
			name, ui.Cut(probe.Line(r.From), name), name, ui.Cut(probe.Line(r.To), name), r.Plane, state, 100*r.Lost,
			took(r.Now), took(r.Median), took(r.Worst), r.Spark(spark)))
	}
	return lines
}

// took formats a time in milliseconds.
func took(ms float64) string {
	switch {
	case ms <= 0:
		return "-"
	case ms < 10:
		return fmt.Sprintf("%.2fms", ms)
	case ms < 1000:
		return fmt.Sprintf("%.0fms", ms)
	}
	return fmt.Sprintf("%.1fs", ms/1000)
}

// about describes the selected path.
func (t *table) about() []string {
	out := make([]string, detailed)
	if t.at >= len(t.rows) {
		return out
	}
	r := t.rows[t.at]
	out[0] = strings.Repeat("─", max(0, t.width))
	what := map[string]string{mesh.PlaneNode: "a ping to the node", mesh.PlanePod: "a ping to a pod on the node"}[r.Plane]
	out[1] = fmt.Sprintf("from %s to %s, %s", probe.Line(r.From), probe.Line(r.To), what)
	out[2] = "seen last: " + probe.Line(r.Saw)
	since := fmt.Sprintf("since %s UTC, for %s", r.Since.UTC().Format(time.TimeOnly), probe.Age(t.now.Sub(r.Since)))
	switch {
	case r.State == mesh.Silent:
		out[3] = "no report at the moment"
	case r.State == mesh.Fails:
		out[3] = "fails " + since
	case r.Since.IsZero():
		out[3] = "has not failed since the watch began"
	default:
		out[3] = "works again " + since
	}
	for i := range out {
		out[i] = ui.Cut(out[i], t.width)
	}
	return out
}

// foot returns the name that the user is typing, or the list of keys.
func (t *table) foot() string {
	switch {
	case t.typing:
		return "node: " + t.node + "_   Enter keeps it, Esc shows all"
	case t.node != "":
		return fmt.Sprintf("only nodes with %q (Esc: all)   q quit  arrows, PgUp, PgDn  / node  space details  p pause", t.node)
	}
	return "q quit  arrows, PgUp, PgDn scroll  / node  space details  p pause"
}
