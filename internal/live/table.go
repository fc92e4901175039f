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
	gone   func() bool // reports whether the terminal is lost: only a session leader gets a signal for that

	rows  []mesh.Row
	sum   mesh.Sum
	fresh bool // the rows match the board
	now   time.Time
	note  string

	width, height int
	at, top       int  // the selected row, and the first visible row
	picked        path // the selected path; zero = always the first row
	paused        bool
	details       bool
	typing        bool
	node          string // show only paths of nodes with this text in their names
}

// path identifies a row.
type path struct{ plane, from, to string }

func pathOf(r mesh.Row) path { return path{r.Plane, r.From, r.To} }

func (t *table) Init() tea.Cmd { return soon() }

func (t *table) Update(msg tea.Msg) (tea.Model, tea.Cmd) {
	switch msg := msg.(type) {
	case mesh.RoundReport:
		t.board.Add(msg)
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

// redraw reads the rows from the board. It does not change the selected path.
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

// move moves the selection down by some rows.
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

// key handles a key.
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

// again immediately updates the visible rows.
func (t *table) again() {
	t.fresh, t.picked = false, path{}
	t.redraw()
}

// edit handles a key while the user types a name.
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

// maxName is the maximum length of a name in Kubernetes.
const maxName = 253

// filter appends typed or pasted text to the name, while the user types one.
func (t *table) filter(text string) {
	text = strings.Map(func(r rune) rune {
		if r > unicode.MaxASCII || !unicode.IsPrint(r) || r == ' ' {
			return -1
		}
		return r
	}, text)
	if t.typing && text != "" && len(t.node)+len(text) <= maxName {
		t.node += text
		t.again()
	}
}
