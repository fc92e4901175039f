package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"sync"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/kubectl/pkg/cmd/util"

	"github.com/calico-probe/calico-probe/prompt"
	"github.com/calico-probe/calico-probe/report"
	"github.com/calico-probe/calico-probe/ui"
)

const shellExample = `  # choose a node, the worst first, and look around
  calico-probe shell

  # one node; two questions, without a prompt
  calico-probe shell --node worker-3 -c 'ping 10.244.7.9; bird show protocols'

  # the same from a file; the exit code is that of the worst answer
  calico-probe shell --node worker-3 <questions`

// shellOptions are the flags of the shell verb.
type shellOptions struct {
	*runOptions
	idle       time.Duration
	commands   string
	scripted   bool // they are given, if only as ""
	transcript string

	toolboxImage string
}

func (a *app) shell(factory util.Factory) *cobra.Command {
	o := &shellOptions{runOptions: &runOptions{app: a, failOn: "fail", peers: 2, keep: true}}
	cmd := &cobra.Command{
		Use: "shell [--node NODE]", Short: "Look at nodes by hand, through a probe that stays", Example: shellExample,
		Args: noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := o.asTyped(cmd); err != nil {
				return err
			}
			o.scripted = cmd.Flags().Changed("command")
			return o.open(cmd.Context())
		},
	}
	f := cmd.Flags()
	f.StringVar(&o.node, "node", "", "the node to begin with (default: choose one)")
	f.StringVarP(&o.commands, "command", "c", "", "run these commands, separated by ; or new lines, instead of a prompt")
	f.DurationVar(&o.idle, "idle", 15*time.Minute, "end the session when nothing was typed at the prompt for so long; 0 = never")
	f.StringVar(&o.transcript, "transcript", "", "record the session in this file, new or a transcript to go on with: commands as they are typed, so type no secrets in them, answers and output, with times (NDJSON, for 'analyze'); of sh only the command")
	f.StringVar(&o.toolboxImage, "toolbox-image", envOr("CALICO_PROBE_TOOLBOX_IMAGE", toolboxImage()), "image whose shell 'sh' takes on a node that has none (environment: CALICO_PROBE_TOOLBOX_IMAGE)")
	o.asking(cmd)
	f.Lookup("timeout").DefValue, o.timeout = "4h0m0s", 4*time.Hour
	f.Lookup("timeout").Usage = "hard end of the session, also on the server's side"
	a.connecting(f)
	o.completions(cmd, factory)
	return cmd
}

// conversation is a session of the shell verb: the nodes visited, each with its probe.
type conversation struct {
	*shellOptions
	seats []*seat
	at    *seat // the node that is asked

	log       *report.Transcript // nil = none is written
	unwritten sync.Once          // tells that it cannot be
	bad       badOnes            // what the command that runs was answered

	known known
	told  bool // what a shell means

	toolboxes []*seat // in containers that stay for the session
}

func (o *shellOptions) open(ctx context.Context) error {
	ctx, cancel := context.WithTimeoutCause(ctx, o.timeout, overError(o.timeout))
	defer cancel()
	end, _ := ctx.Deadline()
	typing := ui.IsTerminal(o.In)
	interactive := typing && !o.scripted
	if err := imageName("toolbox-image", o.toolboxImage); err != nil {
		return err
	}
	switch {
	case o.idle < 0:
		return badUsage("--idle must not be negative; 0 = never")
	case o.via == wayAPI || o.via == wayNeighbour:
		return badUsage("--via %s puts no probe on the node, and a session is one: 'calico-probe run --via %s' asks without it", o.via, o.via)
	case o.node == "" && (!typing || o.via == wayLocal):
		return badUsage("no node is named: use --node NODE ('kubectl get nodes' lists them)")
	}
	script := o.commands
	if !typing && !o.scripted {
		b, err := io.ReadAll(o.In)
		if err != nil {
			return fmt.Errorf("reading commands from stdin: %w", err)
		}
		script = string(b)
	}
	c := &conversation{shellOptions: o}
	defer c.leave()
	s := &prompt.Shell{
		Out: o.Out, ErrOut: o.ErrOut, Terminal: ui.IsTerminal(o.Out), Idle: o.idle,
		Prompt:     c.prompt,
		Interrupts: o.interrupts.Take,
		Typed:      c.typed,
		Failed:     func(_ prompt.Line, err error) { c.failed("", err) },
	}
	all := c.commandsOf()
	s.Commands = c.completed(slices.Insert(all, len(all)-1, s.Help()))
	if !interactive {
		if err := s.Check(script); err != nil { // before anything is put anywhere
			return usage(err)
		}
		if lines, _ := prompt.Parse(script); len(lines) == 0 {
			return badUsage("there is no command to run: give some with -c, or on stdin")
		}
	}
	if interactive || o.node == "" {
		defer c.openTerminal(s)()
	}
	if err := c.beginTranscript(); err != nil {
		return err
	}
	if o.node == "" {
		node, err := c.pick(ctx, s.Editor)
		if err != nil || node == "" {
			if err = c.ended(err); err == nil && !interactive {
				say(c.ErrOut, "no node was chosen: nothing was asked")
				return exit(report.ExitIncomplete)
			}
			return err
		}
		o.node = node
	}
	if err := c.sit(ctx, o.node); err != nil {
		return err
	}
	if interactive {
		c.remember(s)
		if left := time.Until(end) - warning; left > 0 {
			defer time.AfterFunc(left, func() { c.note("the time of the session is over in %v (--timeout %v)", warning, c.timeout) }).Stop()
		}
		return c.ended(s.Interact(ctx))
	}
	worst := report.ExitHealthy
	err := s.Script(ctx, script, func(l prompt.Line, err error) {
		c.failed(l.Text+": ", err)
		worst = worse(worst, codeOf(err))
	})
	if over, ok := errors.AsType[overError](context.Cause(ctx)); ok {
		return over // whatever it interrupted
	}
	if err != nil {
		return usage(err)
	}
	if worst != report.ExitHealthy {
		return exit(worst)
	}
	return nil
}

// openTerminal makes the terminal one that lines are read from; the result gives it back.
func (c *conversation) openTerminal(s *prompt.Shell) func() {
	s.Editor = prompt.NewEditor(c.ErrOut, s.Terminal)
	back := c.interrupts.AtEnd(s.Editor.Restore)
	// What is said meanwhile must not get into what is typed.
	aside := *c.app
	aside.ErrOut = ui.NewScreen(s.Editor.Beside(prompt.Bare(c.ErrOut)), report.Colours())
	c.app = &aside
	return func() {
		back()
		s.Editor.Close()
	}
}

// ended is what the end of a prompt comes to.
func (c *conversation) ended(err error) error {
	switch {
	case errors.Is(err, prompt.ErrIdle):
		say(c.ErrOut, "nothing was typed for %v (--idle): leaving", c.idle)
		return nil
	case errors.As(err, new(overError)):
		say(c.ErrOut, "the time of the session is over (--timeout %v): leaving", c.timeout)
		return nil
	}
	return err
}

// warning is how long before its time is over a session says so.
const warning = 5 * time.Minute

// prompt is the node that is asked, and whether it can be.
func (c *conversation) prompt() string {
	if c.at.session == nil && !c.at.lost {
		return c.at.o.node + " (no probe)> "
	}
	return c.at.o.node + "> "
}

// remember has the prompt know what was typed in other sessions, and those what is typed
// here. Without a place to keep that it is said, and done without.
func (c *conversation) remember(s *prompt.Shell) {
	path, err := historyFile()
	var history *prompt.History
	var lines []string
	if err == nil {
		history, lines, err = prompt.OpenHistory(path)
	}
	if err != nil {
		c.note("what is typed is not remembered for other sessions: %v", err)
		return
	}
	for _, line := range lines {
		s.Editor.Remember(line)
	}
	broken := false
	s.Read = func(line string) {
		if err := history.Add(line); err != nil && !broken {
			broken = true
			c.note("what is typed is not remembered for other sessions: %v", err)
		}
	}
}

// historyFile is where what was typed is kept.
func historyFile() (string, error) {
	dir, err := stateDir()
	if err != nil {
		return "", fmt.Errorf("keeping a history: %w", err)
	}
	return filepath.Join(dir, "history"), nil
}

// stateDir is where the user keeps the state of programs (XDG base directories), else
// what the system names for what may be lost.
func stateDir() (string, error) {
	dir := os.Getenv("XDG_STATE_HOME")
	if filepath.IsAbs(dir) { // any other is to be ignored
		return filepath.Join(dir, "calico-probe"), nil
	}
	var err error
	if runtime.GOOS == "windows" || runtime.GOOS == "darwin" {
		dir, err = os.UserCacheDir()
	} else {
		dir, err = os.UserHomeDir()
		dir = filepath.Join(dir, ".local", "state")
	}
	return filepath.Join(dir, "calico-probe"), err
}

// usage makes the shell's mistakes of typing the program's.
func usage(err error) error {
	if errors.As(err, new(prompt.UsageError)) {
		return badUsage("%w", err)
	}
	return err
}

// outcomeError is a tool's answer that is not a good one.
type outcomeError struct {
	exit
	saw string
}

func (e outcomeError) Error() string { return e.saw }

// Unwrap is the exit code.
func (e outcomeError) Unwrap() error { return e.exit }

// codeOf is the exit code of what a command came to, of all it came to the one that
// weighs most.
func codeOf(err error) int {
	if several, ok := err.(interface{ Unwrap() []error }); ok {
		worst := report.ExitHealthy
		for _, err := range several.Unwrap() {
			worst = worse(worst, codeOf(err))
		}
		return worst
	}
	var code exit
	var pipe prompt.PipeError
	switch {
	case err == nil:
		return report.ExitHealthy
	case errors.As(err, &code):
		return int(code)
	case errors.As(err, &pipe):
		return pipe.Code
	case errors.As(err, new(prompt.UsageError)), errors.As(err, new(usageError)):
		return report.ExitUsage
	}
	return report.ExitTool
}

// failed says what a command came to that has not said so itself, and in a script which.
func (c *conversation) failed(which string, err error) {
	if several, ok := err.(interface{ Unwrap() []error }); ok {
		for _, err := range several.Unwrap() {
			c.failed(which, err)
		}
		return
	}
	var code exit
	switch {
	case errors.As(err, new(outcomeError)):
	case errors.As(err, new(prompt.PipeError)): // which speaks for itself
		return
	case errors.As(err, &code):
		if which != "" {
			say(c.ErrOut, "%s%s", which, c.bad.cameTo(code))
		}
		return
	}
	say(c.ErrOut, "%s%s", which, explainError(err))
}
