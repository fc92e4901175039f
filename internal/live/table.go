package live

import (
	"slices"
	"strings"
	"time"
	"unicode"

	tea "charm.land/bubbletea/v2"

	"github.com/calico-probe/calico-probe/internal/mesh"
)

// table is the state of the screen.
type table struct {
	title  string
	began  time.Time
	board  *mesh.Board
	colour bool
	gone   func() bool // the terminal is lost: nothing else tells a program that does not lead its session

	rows  []mesh.Row
	sum   mesh.Sum
	fresh bool // the board says what the rows do
	now   time.Time
	note  string

	width, height int
	at, top       int  // the row the user is at, and the first one that is shown
	picked        path // the one the user went to; zero = the first one, whichever that is
	paused        bool
	details       bool
	typing        bool
	node          string // only paths of nodes whose names have it
}

// path names a row.
type path struct{ plane, from, to string }

func pathOf(r mesh.Row) path { return path{r.Plane, r.From, r.To} }

func (t *table) Init() tea.Cmd { return soon() }

func (t *table) Update(msg tea.Msg) (tea.Model, tea.Cmd) {
	switch msg := msg.(type) {
	case mesh.Heard:
		t.board.Hear(msg)
		t.fresh = false
	case note:
		t.note = string(msg)
	case refresh:
		if t.gone() {
			return t, tea.Quit
		}
		if !t.paused {
			t.now = time.Now()
			t.redraw()
		}
		return t, soon()
	case tea.WindowSizeMsg:
		t.width, t.height = msg.Width, msg.Height
		t.move(0)
	case tea.PasteMsg:
		t.filter(msg.Content)
	case tea.KeyPressMsg:
		return t, t.key(msg)
	}
	return t, nil
}

// redraw reads the rows from the board. The user stays at the path they went to.
func (t *table) redraw() {
	if t.fresh {
		return
	}
	t.fresh = true
	t.rows, t.sum = t.board.Rows(t.node), t.board.Sum()
	t.at = 0
	if t.picked != (path{}) {
		t.at = max(0, slices.IndexFunc(t.rows, func(r mesh.Row) bool { return pathOf(r) == t.picked }))
	}
	t.move(0)
}

// move goes some rows down.
func (t *table) move(by int) {
	t.at = max(0, min(t.at+by, len(t.rows)-1))
	room := t.room()
	t.top = max(0, min(t.top, t.at, len(t.rows)-room), t.at-room+1)
	if by != 0 && len(t.rows) > 0 {
		t.picked = path{}
		if t.at > 0 {
			t.picked = pathOf(t.rows[t.at])
		}
	}
}

// key does what a key stands for.
func (t *table) key(k tea.KeyPressMsg) tea.Cmd {
	if k.String() == "ctrl+c" {
		return tea.Quit
	}
	if t.typing {
		t.edit(k)
		return nil
	}
	switch k.String() {
	case "q":
		return tea.Quit
	case "up", "k":
		t.move(-1)
	case "down", "j":
		t.move(1)
	case "pgup":
		t.move(-t.room())
	case "pgdown":
		t.move(t.room())
	case "home", "g":
		t.move(-len(t.rows))
	case "end", "G":
		t.move(len(t.rows))
	case "space", " ":
		t.details = !t.details
		t.move(0)
	case "p":
		t.paused = !t.paused
	case "/":
		t.typing = true
	case "esc":
		t.node = ""
		t.again()
	}
	return nil
}

// again shows the rows that are wanted now, at once.
func (t *table) again() {
	t.fresh, t.picked = false, path{}
	t.redraw()
}

// edit takes a key of the name that is typed.
func (t *table) edit(k tea.KeyPressMsg) {
	switch k.String() {
	case "enter":
		t.typing = false
	case "esc":
		t.typing, t.node = false, ""
		t.again()
	case "backspace":
		if r := []rune(t.node); len(r) > 0 {
			t.node = string(r[:len(r)-1])
			t.again()
		}
	default:
		t.filter(k.Text)
	}
}

// longestName is that of a name in Kubernetes.
const longestName = 253

// filter adds what was typed or pasted to the name, if one is typed.
func (t *table) filter(text string) {
	text = strings.Map(func(r rune) rune {
		if r > unicode.MaxASCII || !unicode.IsPrint(r) || r == ' ' {
			return -1
		}
		return r
	}, text)
	if t.typing && text != "" && len(t.node)+len(text) <= longestName {
		t.node += text
		t.again()
	}
}
