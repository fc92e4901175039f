// Package live is the full screen of 'mesh --watch': a table of paths, the worst first, which it redraws as nodes
// report. New returns a Screen, Add passes reports to it, and Run shows it. The package does not read a cluster or
// judge paths: the mesh.Board holds the state of the paths.
//
//	s := live.New("12 nodes of prod", board, stdin, stdout, colour)
//	go watch(s.Add)
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

// New returns a Screen that shows a board under a title on a terminal.
func New(title string, board *mesh.Board, in io.Reader, out io.Writer, colour bool) *Screen {
	t := &table{title: probe.Line(title), board: board, began: time.Now(), colour: colour,
		gone: func() bool { return !ui.IsTerminal(out) }}
	return &Screen{tea.NewProgram(t, tea.WithInput(in), tea.WithOutput(out), tea.WithoutSignalHandler())}
}

// Run shows the screen until the user leaves it or Restore is called. Until then, only Run may use the board. The error
// is from the terminal, or is a panic in this package.
func (s *Screen) Run() error {
	_, err := s.program.Run()
	if err == tea.ErrProgramKilled { // from Restore; other errors are wrapped in it
		return nil
	}
	return err
}

// Restore closes the screen and restores the terminal.
func (s *Screen) Restore() { s.program.Kill() }

// Leave closes the screen, as the key q does.
func (s *Screen) Leave() { s.program.Quit() }

// Add shows a node's report. If the screen is closed, it does nothing.
func (s *Screen) Add(h mesh.RoundReport) { s.program.Send(h) }

// Write shows a message at the bottom of the screen. It replaces stderr.
func (s *Screen) Write(b []byte) (int, error) {
	s.program.Send(note(strings.TrimSpace(probe.Line(string(b)))))
	return len(b), nil
}

// note is a message for the person who watches.
type note string

// refresh requests a redraw of the table from the board.
type refresh struct{}

// often is the minimum interval between redraws after new reports. With many nodes, each report would otherwise cause a
// redraw.
const often = 400 * time.Millisecond

func soon() tea.Cmd { return tea.Tick(often, func(time.Time) tea.Msg { return refresh{} }) }
