package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"
	"sync"

	"github.com/go-logr/logr"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"k8s.io/klog/v2"

	"github.com/calico-probe/calico-probe/internal/apierror"
	"github.com/calico-probe/calico-probe/internal/report"
	"github.com/calico-probe/calico-probe/internal/suggest"
	"github.com/calico-probe/calico-probe/internal/trace"
	"github.com/calico-probe/calico-probe/internal/ui"
	"github.com/calico-probe/calico-probe/probe"
)

// quietKlog discards client-go's log messages, because client-go also returns important ones as errors. It runs once,
// because klog's setting is an unlocked variable.
var quietKlog = sync.OnceFunc(func() { klog.SetLogger(logr.Discard()) })

// Run runs the program with arguments and returns the exit code.
func Run(ctx context.Context, streams genericiooptions.IOStreams, args []string) int {
	streams.Out, streams.ErrOut = ui.NewScreen(streams.Out,
		report.Colours()), ui.NewScreen(streams.ErrOut, report.Colours())
	quietKlog()
	taken := &ui.Interrupts{}
	ctx, signalled, stop := ui.UntilSignal(ctx, streams.ErrOut, taken)
	defer stop()
	a := &app{IOStreams: streams, interrupts: taken, flags: genericclioptions.NewConfigFlags(true).WithDiscoveryQPS(50)}
	root := a.command()
	root.SetArgs(args)
	err := probe.Recovered(func() error { return traced(ctx, root, args) })
	if crash, is := errors.AsType[*probe.Crash](err); is { // the stack is for the bug report
		ui.Say(streams.ErrOut, "%s", crash.Stack)
	}
	var done ui.Exit
	switch {
	case signalled() != 0:
		return signalled()
	case err == nil:
		return report.ExitHealthy
	case errors.As(err, &done):
		return int(done)
	case errors.Is(err, ui.ErrReaderGone):
		return report.ExitPipe
	}
	if errors.As(err, new(ui.DeclinedError)) {
		ui.Say(streams.ErrOut, "%v", err)
		return report.ExitIncomplete
	}
	ui.Say(streams.ErrOut, "error: %s", apierror.Explain(err))
	if errors.As(err, new(ui.UsageError)) {
		return report.ExitUsage
	}
	return report.ExitTool
}

// traced runs a verb, and exports the spans if a collector is configured. An export error is reported, but does not
// change the exit code.
func traced(ctx context.Context, root *cobra.Command, args []string) error {
	stop, err := trace.Start(ctx, probe.Release)
	if err != nil {
		return ui.BadUsage("%w", err)
	}
	verb := root.Name()
	if cmd, _, err := root.Find(args); err == nil {
		verb = cmd.CommandPath()
	}
	ctx, end := trace.Span(ctx, verb)
	err = root.ExecuteContext(ctx)
	end()
	if lost := stop(); lost != nil {
		ui.Say(root.ErrOrStderr(), "some spans could not be sent: %v", lost)
	}
	return err
}

func (a *app) command() *cobra.Command {
	name := "calico-probe"
	if ui.AsPlugin {
		name = "kubectl calico-probe"
	}
	root := &cobra.Command{
		Use:   "calico-probe",
		Short: "Find out why a Kubernetes node running Calico is broken",
		Long: `calico-probe checks a node through the Kubernetes API, and tests it with a small read-only
probe on the node. It reports the causes of faults and how to fix them.`,
		Annotations:   map[string]string{cobra.CommandDisplayNameAnnotation: name},
		SilenceErrors: true,
		SilenceUsage:  true,

		PersistentPreRunE: func(cmd *cobra.Command, _ []string) error {
			for _, name := range defaultFlags {
				if name != "color" && cmd.Flags().Lookup(name) != nil {
					return defaults(cmd)
				}
			}
			return nil // such as version, help and completion, which must work with a broken file
		},
	}
	root.PersistentFlags().BoolVarP(&a.verbose, "verbose", "v", false, "log each step to stderr with the elapsed time, even if stderr is not a terminal")
	root.PersistentFlags().Var(&ui.Colour, "color", "when to use colour: auto, always or never")
	a.bare(root)
	root.SetIn(a.In)
	root.SetOut(a.Out)
	root.SetErr(a.ErrOut)
	root.SetFlagErrorFunc(wrongFlag)
	root.AddCommand(
		a.run(), a.mesh(), a.capture(), a.analyze(), a.diff(), a.bundle(), a.shell(), a.runbook(), a.checks(),
		a.causes(), a.explain(), a.schema(), a.clean(), a.serve(), a.mcp(), a.conditions(), a.manifests(), a.preflight(),
		a.docs(), a.options(), a.version(), a.man(),
	)
	root.InitDefaultCompletionCmd()
	root.InitDefaultHelpCmd()
	if help, _, err := root.Find([]string{"help"}); err == nil && help != root {
		help.Args = aTopic
	}
	a.shortHelp(root)
	bashAlone(root)
	if help := root.HelpFunc(); ui.AsPlugin {
		root.SetHelpFunc(func(cmd *cobra.Command, args []string) {
			var text bytes.Buffer
			cmd.SetOut(&text)
			help(cmd, args)
			_, _ = io.WriteString(a.Out, ui.Advised(text.String()))
		})
	}
	return root
}

// aTopic rejects a request for help on an unknown verb.
func aTopic(cmd *cobra.Command, args []string) error {
	of, rest, err := cmd.Root().Find(args)
	if err != nil || len(rest) == 0 {
		return err
	}
	return aVerb(of, rest)
}

// aVerb rejects an unknown verb of a command.
func aVerb(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	var names []string
	for _, verb := range cmd.Commands() {
		if verb.IsAvailableCommand() {
			names = append(names, verb.Name())
		}
	}
	if like := habits[args[0]]; like != "" && !cmd.HasParent() {
		return ui.BadUsage("unknown command %q: use '%s %s'", args[0], cmd.CommandPath(), like)
	}
	return ui.BadUsage("unknown command %q%s; see '%s --help'", args[0], suggest.DidYouMean(args[0], names), cmd.CommandPath())
}

// habits maps verbs of similar tools to verbs of calico-probe.
var habits = map[string]string{
	"check": "run NODE", "connectivity": "mesh", "debug": "shell --node NODE", "describe": "run NODE",
	"diagnose": "run NODE", "diags": "bundle --node NODE", "doctor": "run NODE", "exec": "shell --node NODE",
	"get": "run -A", "node": "run NODE", "status": "run NODE", "sysdump": "bundle --node NODE", "test": "run NODE",
	"top": "mesh --watch",
}

// ofRun reports whether the verb run has a flag of this name or letter.
func ofRun(root *cobra.Command, name string) bool {
	run, _, err := root.Find([]string{"run"})
	return err == nil && (run.Flags().Lookup(name) != nil || len(name) == 1 && run.Flags().ShorthandLookup(name) != nil)
}

// wrongFlag explains an error about a flag, and suggests the likely intention.
func wrongFlag(cmd *cobra.Command, err error) error {
	if verb := cmd.Flags().Args(); cmd.HasAvailableSubCommands() && len(verb) > 0 { // the verb is unknown
		return aVerb(cmd, verb)
	}
	var unknown *pflag.NotExistError
	var odd *pflag.InvalidValueError
	switch {
	case errors.As(err, &unknown) && !cmd.HasParent() && ofRun(cmd, unknown.GetSpecifiedName()):
		err = fmt.Errorf("%w: it is a flag of '%s run'", err, cmd.CommandPath())
	case errors.As(err, &unknown) && len(unknown.GetSpecifiedName()) > 1: // a single letter is similar to every name
		var names []string
		cmd.Flags().VisitAll(func(f *pflag.Flag) { names = append(names, f.Name) })
		if near := suggest.Nearest(unknown.GetSpecifiedName(), names); near != "" {
			err = fmt.Errorf("%w, did you mean --%s?", err, near)
		}
	case errors.As(err, &odd) && odd.GetFlag().Value.Type() == "duration":
		if n, bad := strconv.Atoi(odd.GetValue()); bad == nil && n > 0 {
			err = fmt.Errorf("--%s %s has no unit: write %ss or %sm", odd.GetFlag().Name, odd.GetValue(), odd.GetValue(), odd.GetValue())
		}
	}
	return ui.BadUsage("%w; see '%s --help'", err, cmd.CommandPath())
}
