package live

import (
	"fmt"
	"strings"
	"testing"
	"time"

	tea "charm.land/bubbletea/v2"

	"github.com/calico-probe/calico-probe/internal/mesh"
)

// watching is a table of a terminal of this size, of so many nodes; the first one fails to all others.
func watching(t *testing.T, nodes, width, height int) *table {
	t.Helper()
	at := time.Date(2026, 11, 24, 3, 0, 0, 0, time.UTC)
	w := &table{title: "some nodes", board: mesh.NewBoard(10 * time.Second), began: at, gone: func() bool { return false }}
	for from := range nodes {
		var trials []mesh.Trial
		for to := range nodes {
			if from != to {
				rtt := 1 + float64(to)
				if from == 0 {
					rtt = 0
				}
				trials = append(trials, mesh.Trial{From: fmt.Sprint("node-", from), To: fmt.Sprint("node-", to), Sent: 3,
					Received: 3 * min(1, from), RTT: rtt, Failed: from == 0, Saw: "seen"})
			}
		}
		w.send(mesh.RoundReport{Round: 3, At: at, Node: fmt.Sprint("node-", from),
			Trials: map[string][]mesh.Trial{mesh.PlaneNode: trials}})
	}
	w.send(tea.WindowSizeMsg{Width: width, Height: height}, refresh{})
	return w
}

func (t *table) send(all ...tea.Msg) {
	for _, msg := range all {
		t.Update(msg)
	}
}

// press presses keys by their names, and letters.
func (t *table) press(all ...string) {
	special := map[string]rune{"up": tea.KeyUp, "down": tea.KeyDown, "pgdown": tea.KeyPgDown, "pgup": tea.KeyPgUp,
		"home": tea.KeyHome, "end": tea.KeyEnd, "enter": tea.KeyEnter, "esc": tea.KeyEscape, "backspace": tea.KeyBackspace,
		"space": tea.KeySpace}
	for _, key := range all {
		k := tea.Key{Code: special[key]}
		if k.Code == 0 {
			k = tea.Key{Text: key, Code: []rune(key)[0]}
		}
		t.Update(tea.KeyPressMsg(k))
	}
}

// row is the one that the user is at, as it is shown.
func (t *table) row(test *testing.T) string {
	test.Helper()
	for line := range strings.Lines(t.View().Content) {
		if strings.HasPrefix(line, "> ") {
			return strings.Join(strings.Fields(line)[1:5], " ")
		}
	}
	test.Errorf("no row is marked:\n%s", t.View().Content)
	return ""
}

// TestTable looks at the rows, and goes through them.
func TestTable(t *testing.T) {
	t.Parallel()
	w := watching(t, 12, 110, 20)
	shown := w.View().Content
	if lines := strings.Count(shown, "\n") + 1; lines != 20 {
		t.Errorf("%d lines:\n%s", lines, shown)
	}
	for _, text := range []string{"some nodes  round 3", "132 paths: 11 fail", "fails     100%", "··×"} {
		if !strings.Contains(shown, text) {
			t.Errorf("%q is not shown:\n%s", text, shown)
		}
	}
	for _, c := range []struct{ keys, want string }{
		{"", "node-0 node-1 node fails"},
		{"down", "node-0 node-10 node fails"},
		{"up up up", "node-0 node-1 node fails"},
		{"pgdown", "node-10 node-9 node ok"}, // fifteen rows on, and eleven fail
		{"end", "node-9 node-0 node ok"},
		{"pgup home", "node-0 node-1 node fails"},
		{"/ - 1 1 enter", "node-0 node-11 node fails"},
		{"down", "node-1 node-11 node ok"},
		{"esc", "node-0 node-1 node fails"},
		{"/ 7 7 backspace", "node-0 node-7 node fails"},
		{"esc", "node-0 node-1 node fails"},
	} {
		w.press(strings.Fields(c.keys)...)
		if got := w.row(t); got != c.want {
			t.Errorf("after %q at %q, want %q", c.keys, got, c.want)
		}
	}
}

// TestStays requires that a selected path stays selected, and that the first row shows the worst path.
func TestStays(t *testing.T) {
	t.Parallel()
	w := watching(t, 6, 110, 20)
	worse := mesh.RoundReport{Round: 4, At: w.began, Node: "node-0", Trials: map[string][]mesh.Trial{mesh.PlaneNode: {
		{From: "node-0", To: "node-1", Sent: 3, Received: 3, RTT: 1},
		{From: "node-0", To: "node-2", Sent: 3, Received: 3, RTT: 1},
	}}}
	w.press("down", "down")
	was := w.row(t)
	w.send(worse, refresh{})
	if got := w.row(t); got != was || w.at != 0 {
		t.Errorf("at %q in row %d, and it was %q", got, w.at, was)
	}
	w.press("home")
	w.press("p")
	shown := w.View().Content
	worse.Round, worse.Trials[mesh.PlaneNode][1] = 5, mesh.Trial{From: "node-0", To: "node-2", Sent: 3, Failed: true}
	w.send(worse, refresh{})
	if got := w.View().Content; got != shown || !strings.Contains(got, "PAUSED") {
		t.Errorf("while it is paused it becomes\n%s\nand was\n%s", got, shown)
	}
	w.press("p")
	w.send(refresh{})
	if got := w.row(t); got != "node-0 node-2 node fails" && got != "node-0 node-3 node fails" {
		t.Errorf("at %q", got)
	}
}

// TestAwaited requires that a screen with a missing node does not report that all paths work.
func TestAwaited(t *testing.T) {
	t.Parallel()
	w := &table{title: "t", board: mesh.NewBoard(time.Second, "a", "b"), width: 100, height: 20,
		gone: func() bool { return false }}
	w.send(mesh.RoundReport{Round: 1, Node: "a", Trials: map[string][]mesh.Trial{mesh.PlaneNode: {
		{From: "a", To: "b", Sent: 3, Received: 3, RTT: 1}}}}, refresh{})
	if shown := w.View().Content; !strings.Contains(shown, "1 paths: no report yet from 1 nodes\n") {
		t.Error(shown)
	}
}

// TestSmall requires that lines fit at any size, without errors.
func TestSmall(t *testing.T) {
	t.Parallel()
	for _, size := range [][2]int{{0, 0}, {1, 1}, {20, 3}, {40, 8}, {79, 24}, {300, 90}} {
		w := watching(t, 9, size[0], size[1])
		w.send(mesh.RoundReport{Round: 3, Node: "node-3", Lost: strings.Repeat("it is gone, ", 40)},
			note(strings.Repeat("x", 400)), refresh{})
		w.press("space", "end", "down", "/", "n", "o")
		shown := w.View().Content
		if lines := strings.Count(shown, "\n") + 1; size[1] > 14 && lines != size[1] {
			t.Errorf("%v: %d lines:\n%s", size, lines, shown)
		}
	}
}

// TestHostile requires that texts from a node or the API cannot control the terminal.
func TestHostile(t *testing.T) {
	t.Parallel()
	const evil = "\x1b]0;x\x07\x1b[2J\nabc\u202e\x9b31m"
	w := &table{title: "t", board: mesh.NewBoard(10 * time.Second), width: 200, height: 30, colour: true,
		gone: func() bool { return false }}
	w.send(mesh.RoundReport{Round: 1, Node: evil, Lost: evil}, note("n"))
	w.send(mesh.RoundReport{Round: 1, Node: "a",
		Trials: map[string][]mesh.Trial{mesh.PlanePod: {{From: evil, To: evil, Sent: 3,
			Failed: true, Saw: evil}}}}, refresh{})
	w.press("space")
	shown := w.View().Content
	for _, colour := range []string{"\x1b[1;31m", "\x1b[33m", "\x1b[35m", "\x1b[0m"} {
		shown = strings.ReplaceAll(shown, colour, "")
	}
	if strings.ContainsAny(shown, "\x1b\x07\u202e\u009b") || strings.Count(shown, "\n") != 29 {
		t.Errorf("%q", shown)
	}
}
