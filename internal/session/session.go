// Package session examines nodes interactively, from a prompt or a script of commands. It places a probe on each
// visited node. The probe keeps running until the session ends.
//
//	a typed line -> package prompt -> a command here -> the node's probe -> answers
//	answers -> the terminal, the transcript, and report.Latest, from which why, diff and save conclude
//
// A Session has the commands (one file each: watch.go, why.go, sh.go, ...) and the nodes; a
// nodeSession is one node with its probe, which all runs on that node use.
// Session.Run is the entry point. The package does not parse lines, complete words or run
// pipes: package prompt does.
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

// Options configure a session.
type Options struct {
	Run          examine.Options // options for its runs; Node is the first node; "" = the user chooses
	Idle         time.Duration   // ends it after this time without input; 0 = never
	Commands     string          // commands to run instead of a prompt
	Scripted     bool            // Commands are given, even if they are ""
	Transcript   string          // the file in which to record it; "" = none
	ToolboxImage string          // image with a shell, for 'sh' on a node without a shell
	// the profile with the rights of the session's probes and shells; nil = as few rights as they need
	DebugProfile *injector.DebugProfile
	// Lookups are commands that contact neither the API nor a node, such as explain.
	Lookups []*prompt.Command
}

// Terminal holds the streams from which a session reads and to which it writes.
type Terminal struct {
	In          io.Reader
	Out, ErrOut io.Writer
	Interrupts  *ui.Interrupts
}

// Session holds the visited nodes, each with its probe, and the commands.
type Session struct {
	opts           Options
	client         *examine.Client
	stdin          io.Reader
	stdout, stderr io.Writer
	interrupts     *ui.Interrupts

	nodes []*nodeSession
	at    *nodeSession // the current node

	log       *report.Transcript // nil = no transcript is written
	unwritten sync.Once          // reports once that the transcript is not writable
	bad       badOnes            // bad results of the current command

	known     known
	explained bool // the meaning of a shell was explained

	toolboxes []*nodeSession // in containers that keep running until the session ends

	resized chan struct{} // see resizes; nil = no shell has used the terminal
}

// New returns a Session. It does not send requests before Run.
func New(client *examine.Client, opts Options, t Terminal) *Session {
	return &Session{opts: opts, client: client, stdin: t.In, stdout: t.Out, stderr: t.ErrOut, interrupts: t.Interrupts}
}

// Run runs the whole session. It rejects invalid options and scripts before it places
// anything.
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
		if err := s.Check(script); err != nil { // before it places anything
			return usage(fmt.Errorf("%w; nothing was run", err))
		}
		if lines, _ := prompt.Parse(script); len(lines) == 0 {
			return ui.BadUsage("no commands to run: pass them with -c or on stdin")
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

// validate rejects invalid options.
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
	case !injector.AccessOf(run.Via).Covers(injector.TheNode):
		return ui.BadUsage("--via %s places no probe, but a session needs a probe: use 'calico-probe run --via %s'", run.Via, run.Via)
	case run.Node == "" && (!ui.IsTerminal(c.stdin) || injector.AccessOf(run.Via).Here()):
		return ui.BadUsage("no node given: use --node NODE ('kubectl get nodes' lists nodes)")
	}
	return nil
}

// chooseMethods limits --via to the methods that a debug profile supports.
func (c *Session) chooseMethods() error {
	run := &c.opts.Run
	if c.opts.DebugProfile == nil {
		return nil
	}
	if run.Privileged {
		return ui.BadUsage("--debug-profile %s sets the rights: leave out --privileged", c.opts.DebugProfile.Name)
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

// script returns the commands to run. They are from -c or, if stdin is not a terminal, from stdin.
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

// begin goes to the first node. It returns false if the user did not choose a node.
func (c *Session) begin(ctx context.Context, e *prompt.Editor, interactive bool) (chosen bool, err error) {
	node := c.opts.Run.Node
	if node == "" {
		if node, err = c.pick(ctx, e); err != nil || node == "" {
			if err = c.ended(err); err == nil && !interactive {
				ui.Say(c.stderr, "no node was chosen, so nothing was checked")
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
			c.client.Note("the session ends in %v (--timeout %v)", warning, c.opts.Run.Timeout)
		}).Stop()
	}
	return c.ended(s.Interact(ctx))
}

// runScript runs commands without a prompt. The exit code is that of the worst answer.
func (c *Session) runScript(ctx context.Context, s *prompt.Shell, script string) error {
	worst := report.ExitHealthy
	err := s.Script(ctx, script, func(l prompt.Line, err error) {
		c.failed(l.Text+": ", err)
		worst = examine.WorseExit(worst, codeOf(err))
	})
	if over, ok := errors.AsType[examine.TimeoutError](context.Cause(ctx)); ok {
		return over // return this whatever command was interrupted
	}
	if err != nil {
		return usage(err)
	}
	if worst != report.ExitHealthy {
		return ui.Exit(worst)
	}
	return nil
}

// openTerminal prepares the terminal for the line editor. The returned function restores the terminal.
func (c *Session) openTerminal(s *prompt.Shell) func() {
	s.Editor = prompt.NewEditor(c.stderr, s.Terminal)
	back := c.interrupts.AtEnd(s.Editor.Restore)
	// Messages must not be mixed into the line that the user is typing.
	c.stderr = ui.NewScreen(s.Editor.Beside(prompt.Bare(c.stderr)), report.Colours())
	c.client = c.client.Writing(c.stderr)
	return func() {
		back()
		s.Editor.Close()
	}
}

// ended turns the end of a prompt into the session's error.
func (c *Session) ended(err error) error {
	switch {
	case errors.Is(err, prompt.ErrIdle):
		ui.Say(c.stderr, "no input for %v (--idle): leaving", c.opts.Idle)
		return nil
	case errors.As(err, new(examine.TimeoutError)):
		ui.Say(c.stderr, "the session timed out (--timeout %v): leaving", c.opts.Run.Timeout)
		return nil
	}
	return err
}

// warning is the time before a session's timeout at which the session announces it.
const warning = 5 * time.Minute

// prompt returns the prompt: the current node, and whether it has a probe.
func (c *Session) prompt() string {
	if c.at.session == nil && !c.at.lost {
		return c.at.opts.Node + " (no probe)> "
	}
	return c.at.opts.Node + "> "
}

// remember shares the history with other sessions. If the history cannot be stored, it prints a note and continues
// without it.
func (c *Session) remember(s *prompt.Shell) {
	dir, err := ui.StateDir()
	var history *prompt.History
	var lines []string
	if err == nil {
		history, lines, err = prompt.OpenHistory(filepath.Join(dir, "history"))
	}
	if err != nil {
		c.client.Note("the command history is not saved for later sessions: %v", err)
		return
	}
	for _, line := range lines {
		s.Editor.Remember(line)
	}
	broken := false
	s.Read = func(line string) {
		if err := history.Add(line); err != nil && !broken {
			broken = true
			c.client.Note("the command history is not saved for later sessions: %v", err)
		}
	}
}

// recovered limits a panic to one command. The session and its probes survive.
func recovered(all []*prompt.Command) []*prompt.Command {
	for _, command := range all {
		run := command.Run
		command.Run = func(ctx context.Context, call *prompt.Call) error {
			return probe.Recovered(func() error { return run(ctx, call) })
		}
	}
	return all
}
