package session

import (
	"bytes"
	"context"
	"errors"
	"os"
	"slices"
	"strings"
	"unicode"

	"github.com/calico-probe/calico-probe/injector"
	"github.com/calico-probe/calico-probe/internal/prompt"
	"github.com/calico-probe/calico-probe/internal/ui"
	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/probe/tools"
)

// shCommand returns sh, the only command with which a user can change the node.
func (c *Session) shCommand() *prompt.Command {
	return &prompt.Command{
		Name: tools.Sh.Name, Usage: tools.Sh.Usage, Short: tools.Sh.Short, Doc: tools.Sh.Doc,
		Check: tools.Sh.Check,
		Run:   c.sh, Terminal: true, Plain: oneCommand,
	}
}

// oneCommand reports whether the shell must run one command and exit.
func oneCommand(args []string) bool {
	return slices.Contains(args, "-c") || slices.Contains(args, "--")
}

// asItIs does not change the output of a program that the user chose: the program controls the terminal, or its output,
// such as tcpdump's, goes into a pipe.
func asItIs(b []byte) []byte { return b }

// lines is for a terminal in raw mode and a program that may only write lines. It removes control characters, except
// carriage returns and backspaces, which a tty's echo uses.
func lines(b []byte) []byte {
	return bytes.Map(func(r rune) rune {
		if r == '\n' || r == '\t' || r == '\r' || r == '\b' || unicode.IsGraphic(r) {
			return r
		}
		return '?'
	}, b)
}

// sh opens a shell on the node, or runs one command in it.
func (c *Session) sh(ctx context.Context, call *prompt.Call) error {
	toolbox := false
	for _, arg := range call.Args {
		if arg == "-c" || arg == "--" {
			break
		}
		toolbox = toolbox || arg == "--toolbox"
	}
	outcome, err := c.shOf(ctx, call, call.Args, toolbox)
	reason := outcome.Facts.Str(probe.FactReason)
	if err == nil && !toolbox && outcome.Status == probe.Skip &&
		(reason == tools.ReasonNoShell || reason == tools.ReasonNoRoot) {
		ui.Say(c.stderr, "%s; using the toolbox instead", outcome.Saw)
		outcome, err = c.shOf(ctx, call, append([]string{"--toolbox"}, call.Args...), true)
	}
	if err != nil {
		return err
	}
	return c.cameTo(outcome)
}

// shOf runs the node's or the toolbox's shell through a probe with the necessary rights.
func (c *Session) shOf(ctx context.Context, call *prompt.Call, args []string, toolbox bool) (probe.Result, error) {
	in, typed := c.stdin.(*os.File)
	out, shown := prompt.Bare(c.stdout).(*os.File)
	alone := call.Terminal && typed && shown && ui.IsTerminal(in)
	if !alone && !oneCommand(args) { // check this before anything is placed
		return probe.Result{}, prompt.Usagef("a shell needs a terminal: without one, use sh -c COMMAND")
	}
	s, leave, err := c.shellNode(ctx, toolbox)
	if err != nil {
		return probe.Result{}, err
	}
	what := probe.Call{Tool: tools.Sh.Name, Args: args}
	if !alone {
		to, fit := prompt.Bare(call.Out), asItIs
		if call.Terminal {
			to, fit = call.Out, printable
		}
		outcome, err := s.through(ctx, what, to, fit, func(probe.Event) {})
		return outcome, errors.Join(err, leave())
	}
	kind, fit := terminalKind(), asItIs
	if oneCommand(args) {
		kind, fit = "dumb", lines
	}
	own := []string{"--term", kind}
	if c.explained {
		own = append(own, "--quiet")
	}
	what.Args = append(own, args...)
	outcome, err := c.onTerminal(ctx, s, what, in, out, fit)
	c.explained = c.explained || outcome.Status == probe.OK
	return outcome, errors.Join(err, leave())
}

// shellNode returns a probe that may start a shell. A probe in its own pod does not have the rights or writable node
// files, so a second, privileged pod exists while the shell runs. A toolbox is another image, so it also needs a second
// pod. With access method ephemeral, the second container keeps running until the session ends.
func (c *Session) shellNode(ctx context.Context, toolbox bool) (s *nodeSession, leave func() error, err error) {
	at := c.at
	stays := func() error { return nil }
	if err := at.ready(ctx); err != nil { // this decides the access method
		return nil, nil, err
	}
	had := slices.IndexFunc(c.toolboxes, func(s *nodeSession) bool {
		return s.opts.Node == at.opts.Node && s.session != nil && s.session.Gone() == nil
	})
	switch by := injector.AccessOf(at.method); {
	case !toolbox && !by.Pods:
		return at, stays, nil
	case toolbox && by.Stays && had >= 0:
		return c.toolboxes[had], stays, nil
	case by.Here():
		return nil, nil, notRunError("the toolbox is an image, and --via local has no cluster to run it on")
	}
	own := at.beside(ctx)
	if toolbox {
		own.Image = c.opts.ToolboxImage
	}
	own.RootShell = true
	in, until := "pod", "the shell ends"
	if injector.AccessOf(own.Via).Stays {
		in, until = "container", "the session ends"
	}
	rights := "privileged"
	if at.debugProfile != nil {
		rights = at.debugProfile.Name
	}
	at.client.Progress("sh uses a separate %s %s on %s until %s", rights, in, own.Node, until)
	s, came, err := at.placeBeside(ctx, own, &nodeSession{debugProfile: at.debugProfile})
	switch {
	case err != nil:
		return nil, nil, err
	case s.session == nil && toolbox:
		return nil, nil, notRunError("%s", strings.ReplaceAll(came, "--image", "--toolbox-image"))
	case s.session == nil:
		return nil, nil, notRunError("%s", came)
	case injector.AccessOf(s.method).Stays: // each container would remain in the spec of calico-node's pod
		c.toolboxes = append(c.toolboxes, s)
		return s, stays, nil
	}
	return s, s.leave, nil
}
