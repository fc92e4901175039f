// Package session lets a person test nodes by hand: by a prompt, or a script of commands,
// through a probe that stays on each node visited until the session ends.
//
// A Session has the commands (one file each: watch.go, why.go, sh.go, ...) and the nodes; a
// nodeSession is one node with its probe, which the runs typed there ask.
// The prompt itself, with its lines, completion and pipes, is package prompt.
//
//	s := session.New(client, opts, session.Terminal{In: stdin, Out: stdout, ErrOut: stderr, Interrupts: interrupts})
//	err := s.Run(ctx)
package session

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/calico-probe/calico-probe/injector"
	"github.com/calico-probe/calico-probe/internal/examine"
	"github.com/calico-probe/calico-probe/internal/prompt"
	"github.com/calico-probe/calico-probe/internal/report"
	"github.com/calico-probe/calico-probe/internal/ui"
	"github.com/calico-probe/calico-probe/probe"
)

// Options say what a session begins with.
type Options struct {
	Run          examine.Options // of the runs typed in it; Node is the first node, "" = the user chooses
	Idle         time.Duration   // ends it when nothing was typed for so long, 0 = never
	Commands     string          // to run instead of a prompt
	Scripted     bool            // Commands are given, if only as ""
	Transcript   string          // the file to record it in, "" = none
	ToolboxImage string          // whose shell 'sh' takes on a node that has none
	// Profile decides the rights of the probes and shells that the session places, nil = as few as they need
	DebugProfile *injector.DebugProfile
	// Lookups are commands that ask nobody, such as explain.
	Lookups []*prompt.Command
}

// Terminal is where a session reads and writes.
type Terminal struct {
	In          io.Reader
	Out, ErrOut io.Writer
	Interrupts  *ui.Interrupts
}

// Session is the nodes visited, each with its probe, and the commands.
type Session struct {
	opts           Options
	client         *examine.Client
	stdin          io.Reader
	stdout, stderr io.Writer
	interrupts     *ui.Interrupts

	nodes []*nodeSession
	at    *nodeSession // the node that is asked

	log       *report.Transcript // nil = none is written
	unwritten sync.Once          // tells that it cannot be
	bad       badOnes            // what the command that runs was answered

	known     known
	explained bool // what a shell means

	toolboxes []*nodeSession // in containers that stay for the session

	resized chan struct{} // what resizes returns, nil = no shell had the terminal yet
}

// New returns a Session; nothing is asked before Run.
func New(client *examine.Client, opts Options, t Terminal) *Session {
	return &Session{opts: opts, client: client, stdin: t.In, stdout: t.Out, stderr: t.ErrOut, interrupts: t.Interrupts}
}

// Run is the whole session. Mistakes in options and script are found before anything is put
// anywhere.
func (c *Session) Run(ctx context.Context) error {
	ctx, cancel := c.opts.Run.Deadline(ctx)
	defer cancel()
	interactive := ui.IsTerminal(c.stdin) && !c.opts.Scripted
	if err := c.validate(); err != nil {
		return err
	}
	script, err := c.script()
	if err != nil {
		return err
	}
	defer c.leave()
	s := &prompt.Shell{
		Out: c.stdout, ErrOut: c.stderr, Terminal: ui.IsTerminal(c.stdout), Idle: c.opts.Idle,
		Prompt:     c.prompt,
		Interrupts: c.interrupts.Take,
		Typed:      c.typed,
		Failed:     func(_ prompt.Line, err error) { c.failed("", err) },
	}
	all := recovered(c.Commands())
	s.Commands = c.completed(slices.Insert(all, len(all)-1, s.Help()))
	if !interactive {
		if err := s.Check(script); err != nil { // before anything is put anywhere
			return usage(fmt.Errorf("%w; nothing was run", err))
		}
		if lines, _ := prompt.Parse(script); len(lines) == 0 {
			return ui.BadUsage("there is no command to run: give some with -c, or on stdin")
		}
	}
	if interactive || c.opts.Run.Node == "" {
		defer c.openTerminal(s)()
	}
	if err := c.beginTranscript(); err != nil {
		return err
	}
	if chosen, err := c.begin(ctx, s.Editor, interactive); err != nil || !chosen {
		return err
	}
	if interactive {
		return c.interact(ctx, s)
	}
	return c.runScript(ctx, s, script)
}

// validate refuses options that cannot be right.
func (c *Session) validate() error {
	run := c.opts.Run
	if err := examine.CheckImage("toolbox-image", c.opts.ToolboxImage); err != nil {
		return err
	}
	if err := c.chooseMethods(); err != nil {
		return err
	}
	switch {
	case c.opts.Idle < 0:
		return ui.BadUsage("--idle must not be negative; 0 = never")
	case !injector.AccessOf(run.Via).Asks(injector.TheNode):
		return ui.BadUsage("--via %s puts no probe on the node, and a session is one: 'calico-probe run --via %s' asks without it", run.Via, run.Via)
	case run.Node == "" && (!ui.IsTerminal(c.stdin) || injector.AccessOf(run.Via).Here()):
		return ui.BadUsage("no node is named: use --node NODE ('kubectl get nodes' lists them)")
	}
	return nil
}

// chooseMethods limits --via to what a debug profile is for.
func (c *Session) chooseMethods() error {
	run := &c.opts.Run
	if c.opts.DebugProfile == nil {
		return nil
	}
	if run.Privileged {
		return ui.BadUsage("--debug-profile %s decides the rights: leave out --privileged", c.opts.DebugProfile.Name)
	}
	if run.Via == examine.ViaAuto {
		run.Via = injector.MethodPod + "," + injector.MethodEphemeral
	}
	for name := range strings.SplitSeq(run.Via, ",") {
		if name != injector.MethodPod && name != injector.MethodEphemeral {
			return ui.BadUsage("--debug-profile is for pods and ephemeral containers, and --via %s creates neither: use --via pod,ephemeral", name)
		}
	}
	return nil
}

// script is the commands to run: those of -c, else what stdin holds where it is no terminal.
func (c *Session) script() (string, error) {
	if ui.IsTerminal(c.stdin) || c.opts.Scripted {
		return c.opts.Commands, nil
	}
	b, err := io.ReadAll(c.stdin)
	if err != nil {
		return "", fmt.Errorf("reading commands from stdin: %w", err)
	}
	return string(b), nil
}

// begin goes to the first node; false = the user has chosen none.
func (c *Session) begin(ctx context.Context, e *prompt.Editor, interactive bool) (chosen bool, err error) {
	node := c.opts.Run.Node
	if node == "" {
		if node, err = c.pick(ctx, e); err != nil || node == "" {
			if err = c.ended(err); err == nil && !interactive {
				ui.Say(c.stderr, "no node was chosen: nothing was asked")
				return false, ui.Exit(report.ExitIncomplete)
			}
			return false, err
		}
	}
	return true, c.visit(ctx, node)
}

// interact reads commands from the terminal.
func (c *Session) interact(ctx context.Context, s *prompt.Shell) error {
	c.remember(s)
	ui.Say(c.stderr, `type "help" for the commands; Tab completes, Ctrl-D leaves`)
	if end, _ := ctx.Deadline(); time.Until(end) > warning {
		defer time.AfterFunc(time.Until(end)-warning, func() {
			c.client.Note("the time of the session is over in %v (--timeout %v)", warning, c.opts.Run.Timeout)
		}).Stop()
	}
	return c.ended(s.Interact(ctx))
}

// runScript runs commands without a prompt; the exit code is that of the worst answer.
func (c *Session) runScript(ctx context.Context, s *prompt.Shell, script string) error {
	worst := report.ExitHealthy
	err := s.Script(ctx, script, func(l prompt.Line, err error) {
		c.failed(l.Text+": ", err)
		worst = examine.WorseExit(worst, codeOf(err))
	})
	if over, ok := errors.AsType[examine.TimeoutError](context.Cause(ctx)); ok {
		return over // whatever it interrupted
	}
	if err != nil {
		return usage(err)
	}
	if worst != report.ExitHealthy {
		return ui.Exit(worst)
	}
	return nil
}

// openTerminal makes the terminal one that lines are read from; the result gives it back.
func (c *Session) openTerminal(s *prompt.Shell) func() {
	s.Editor = prompt.NewEditor(c.stderr, s.Terminal)
	back := c.interrupts.AtEnd(s.Editor.Restore)
	// What is said meanwhile must not get into what is typed.
	c.stderr = ui.NewScreen(s.Editor.Beside(prompt.Bare(c.stderr)), report.Colours())
	c.client = c.client.Writing(c.stderr)
	return func() {
		back()
		s.Editor.Close()
	}
}

// ended is what the end of a prompt comes to.
func (c *Session) ended(err error) error {
	switch {
	case errors.Is(err, prompt.ErrIdle):
		ui.Say(c.stderr, "nothing was typed for %v (--idle): leaving", c.opts.Idle)
		return nil
	case errors.As(err, new(examine.TimeoutError)):
		ui.Say(c.stderr, "the time of the session is over (--timeout %v): leaving", c.opts.Run.Timeout)
		return nil
	}
	return err
}

// warning is how long before its time is over a session says so.
const warning = 5 * time.Minute

// prompt is the node that is asked, and whether it can be.
func (c *Session) prompt() string {
	if c.at.session == nil && !c.at.lost {
		return c.at.opts.Node + " (no probe)> "
	}
	return c.at.opts.Node + "> "
}

// remember has the prompt know what was typed in other sessions, and those what is typed
// here. Without a place to keep that it is said, and done without.
func (c *Session) remember(s *prompt.Shell) {
	dir, err := ui.StateDir()
	var history *prompt.History
	var lines []string
	if err == nil {
		history, lines, err = prompt.OpenHistory(filepath.Join(dir, "history"))
	}
	if err != nil {
		c.client.Note("what is typed is not remembered for other sessions: %v", err)
		return
	}
	for _, line := range lines {
		s.Editor.Remember(line)
	}
	broken := false
	s.Read = func(line string) {
		if err := history.Add(line); err != nil && !broken {
			broken = true
			c.client.Note("what is typed is not remembered for other sessions: %v", err)
		}
	}
}

// recovered makes a panic cost one command, not the session and its probes.
func recovered(all []*prompt.Command) []*prompt.Command {
	for _, command := range all {
		run := command.Run
		command.Run = func(ctx context.Context, call *prompt.Call) error {
			return probe.Recovered(func() error { return run(ctx, call) })
		}
	}
	return all
}
