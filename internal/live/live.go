// Package live is the full screen of 'mesh --watch': a table of paths, the worst first, that is drawn anew while nodes
// say how their paths are. It knows nothing of clusters.
//
//	s := live.New("12 nodes of prod", board, stdin, stdout, colour)
//	go watch(s.Hear)
//	err := s.Run() // until q
package live

import (
	"io"
	"strings"
	"time"

	tea "charm.land/bubbletea/v2"

	"github.com/calico-probe/calico-probe/internal/mesh"
	"github.com/calico-probe/calico-probe/internal/ui"
	"github.com/calico-probe/calico-probe/probe"
)

// Screen is a terminal that shows a mesh.Board.
type Screen struct {
	program *tea.Program
}

// New returns a Screen of a terminal that shows a board under a title.
func New(title string, board *mesh.Board, in io.Reader, out io.Writer, colour bool) *Screen {
	t := &table{title: probe.Line(title), board: board, began: time.Now(), colour: colour,
		gone: func() bool { return !ui.IsTerminal(out) }}
	return &Screen{tea.NewProgram(t, tea.WithInput(in), tea.WithOutput(out), tea.WithoutSignalHandler())}
}

// Run shows the screen until its user leaves it, or Restore is called. Until then nobody else may use the board. The
// error says what went wrong with the terminal, or here.
func (s *Screen) Run() error {
	_, err := s.program.Run()
	if err == tea.ErrProgramKilled { // by Restore; what goes wrong is wrapped in it
		return nil
	}
	return err
}

// Restore ends the screen and gives the terminal back as it was.
func (s *Screen) Restore() { s.program.Kill() }

// Leave ends the screen as its user does.
func (s *Screen) Leave() { s.program.Quit() }

// Hear shows what a node says. After the end of the screen it does nothing.
func (s *Screen) Hear(h mesh.Heard) { s.program.Send(h) }

// Write shows a message at the foot of the screen: it takes the place of stderr.
func (s *Screen) Write(b []byte) (int, error) {
	s.program.Send(note(strings.TrimSpace(probe.Line(string(b)))))
	return len(b), nil
}

// note is a message for the person who watches.
type note string

// refresh is that the table is drawn from the board again.
type refresh struct{}

// often is how often that is, where anything was heard: not for each node of many.
const often = 400 * time.Millisecond

func soon() tea.Cmd { return tea.Tick(often, func(time.Time) tea.Msg { return refresh{} }) }
