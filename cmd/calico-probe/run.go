package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/calico-probe/calico-probe/injector"
	"github.com/calico-probe/calico-probe/internal/apierror"
	"github.com/calico-probe/calico-probe/internal/examine"
	"github.com/calico-probe/calico-probe/internal/output"
	"github.com/calico-probe/calico-probe/internal/report"
	"github.com/calico-probe/calico-probe/internal/ui"
	"github.com/calico-probe/calico-probe/probe"
)

// runFlags are the flags of a verb that examines nodes.
type runFlags struct {
	*app
	examine.Options
	causesDir string // folder of an operator's causes
}

const runExample = `  # test one node
  calico-probe run worker-3

  # run only the quick checks, which need the fewest privileges
  calico-probe run worker-3 --profile quick

  # use only the API, and create nothing
  calico-probe run worker-3 --via api

  # test the node from healthy nodes, without a probe on it
  calico-probe run worker-3 --via outside

  # test all nodes, and group them by cause
  calico-probe run --all-nodes

  # test all nodes through the API only, and create nothing
  calico-probe run --all-nodes --via api

  # run two families of checks, with JSON output for a pipeline
  calico-probe run worker-3 --checks bgp,felix -o json

  # print the report, and write files for CI and for a ticket
  calico-probe run worker-3 -o junit=probe.xml -o markdown=ticket.md

  # print one field, with kubectl's JSONPath syntax
  calico-probe run worker-3 -o jsonpath='{.causes[0].fix.manifest}'`

func (a *app) run() *cobra.Command {
	o, several, out := &runFlags{app: a}, &severalNodes{}, &output.Set{Family: families()}
	cmd := &cobra.Command{
		Use: "run NODE...", Short: "Test one node or many, and name the causes of faults", Example: runExample,
		Long: `Checks the node through the API, then places a probe on it with the first access method that
works. It names the causes of faults, with evidence and a fix for each. It never runs a fix. A
run over several nodes (--all-nodes, -l, or several --node) groups nodes with the same cause.

` + exitCodes(),
		Args: noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if several.isFleet() {
				return o.examineFleet(cmd, several, out)
			}
			if several.resume != "" {
				return ui.BadUsage("--resume continues a run over several nodes: select the same nodes again, with " +
					"--all-nodes, -l or --node more than once")
			}
			if len(several.named) == 1 {
				o.Node = several.named[0]
			}
			return o.examine(cmd, out)
		},
	}
	f := cmd.Flags()
	several.flags(f)
	out.Flag(cmd, report.Formats())
	causesFlag(cmd, &o.causesDir)
	f.StringVar(&o.FailOn, "fail-on", examine.FailOnFail, "results that make the exit code non-zero: fail, or warn to include warnings")
	o.others(cmd)
	o.asking(cmd)
	a.connecting(cmd)
	o.completions(cmd)
	return cmd
}

// others adds the flags for the follow-up checks that a run starts if it finds problems.
func (o *runFlags) others(cmd *cobra.Command) {
	f := cmd.Flags()
	f.IntVar(&o.Baselines, "baselines", 2, "number of healthy nodes to compare with when something is wrong; "+
		"0 = do not use other nodes. With --profile standard, a pod on a healthy node also tests the target node in every run")
	f.BoolVar(&o.NoFollowUp, "no-follow-up", false,
		"skip follow-up checks, which go beyond --profile to confirm or exclude the likeliest causes")
}

// examine starts one run with the settings from the flags.
func (o *runFlags) examine(cmd *cobra.Command, out *output.Set) error {
	if err := o.noContradiction(cmd); err != nil {
		return err
	}
	client, err := o.client()
	if err != nil {
		return err
	}
	if err := o.Complete(); err != nil {
		if o.Node == "" && ui.IsTerminal(o.ErrOut) {
			return noNode(cmd.Context(), client, err)
		}
		return err
	}
	if err := client.Resolve(cmd.Context(), &o.Options); err != nil {
		return err
	}
	if err := o.ThisNode(); err != nil {
		return err
	}
	if o.Causes, err = loadCauses(o.causesDir); err != nil {
		return err
	}
	run, err := examine.New(client, o.Options, nil)
	if err != nil {
		return err
	}
	if err := out.Open(o.Out); err != nil {
		return err
	}
	ctx, cancel := o.Deadline(cmd.Context())
	defer cancel()
	out.Until(ctx)
	sink, err := out.Sink()
	if err != nil {
		return err
	}
	watch := o.watching(out, "checks")(run.Picked())
	defer watch.Close()
	run.Sink = report.SinkFunc(func(ev probe.Event) error {
		watch.Event(ev, o.Node)
		if ev.Type == probe.EventVerdict { // the report replaces the progress
			watch.Close()
		}
		return sink.Event(ev)
	})
	return out.Close(unfinished(out, run.Collector, run.Do(ctx)))
}

// watching returns a function that shows progress on a terminal until the report is written, for example how many nodes
// have answered. It shows no progress if the report is written as answers arrive, or if stdout is not a terminal.
func (a *app) watching(out *output.Set, unit string) func(pending []string) *ui.Watch {
	return func(pending []string) *ui.Watch {
		if !ui.IsTerminal(a.Out) || a.verbose || out.Lives() {
			return nil
		}
		return ui.Watching(a.ErrOut, unit, pending)
	}
}

// unfinished marks a run without a verdict as unfinished in its output files. Their old content is gone, and an empty
// file would look healthy. It returns the run's own error.
func unfinished(out *output.Set, c *examine.Collector, came error) error {
	if came == nil || errors.As(came, new(ui.Exit)) || errors.Is(came, output.ErrAllBroken) {
		return came
	}
	c.Sink = out.FilesSink()
	r := probe.Found(probe.Unknown, "the run did not finish: %s", whyUnfinished(came))
	r.Check = probe.CheckAnswered
	if c.Add("", probe.Event{Type: probe.EventResult, Result: &r}) == nil {
		_ = c.Conclude() // ignore its exit code; a file that fails reports the error itself
	}
	return came
}

// whyUnfinished returns why a run has no verdict.
func whyUnfinished(came error) string {
	if errors.Is(came, context.Canceled) {
		return "it was stopped"
	}
	return apierror.Explain(came)
}

// exitCodes lists the program's exit codes, for the help text.
func exitCodes() string {
	var b strings.Builder
	b.WriteString("Exit codes:")
	for _, c := range report.ExitCodes() {
		fmt.Fprintf(&b, "\n  %-4d %s", c.Code, c.Means)
	}
	return b.String()
}

// asking adds the flags that select the checks and the access to a node.
func (o *runFlags) asking(cmd *cobra.Command) {
	f := cmd.Flags()
	f.StringVar(&o.Profile, "profile", string(probe.Standard), "how much to check: quick, standard or deep; --checks selects from the checks of all profiles")
	f.StringSliceVar(&o.Checks, "checks", nil, "run only these checks: IDs, prefixes, globs or tags, separated by commas")
	f.StringSliceVar(&o.Skip, "skip", nil, "skip these checks; same patterns as --checks")
	o.reaching(cmd)
	o.limiting(cmd)
	o.consenting(f)
}

// reaching adds the flags that configure the access to a node.
func (o *runFlags) reaching(cmd *cobra.Command) {
	f := cmd.Flags()
	f.StringVar(&o.SSH, "ssh", "", "ssh destination, [USER@]HOST; {node} and {ip} are the node's name and address (default: the node's InternalIP)")
	f.StringVar(&o.SSHConfig, "ssh-config", "", "ssh configuration file instead of your own (ssh -F)")
	f.StringVar(&o.Reason, "reason", "", "reason for this run, recorded on created objects for auditors")
	o.placing(cmd)
	f.DurationVar(&o.Timeout, "timeout", 2*time.Minute, "time limit of the whole run")
	f.DurationVar(&o.StartTimeout, "start-timeout", 0, "maximum time to wait for a pod or an ephemeral container to start (default 40s), "+
		"for ssh to connect (10s), for the shell of exec and the first output of the probe (15s each); "+
		"the wait is shorter if there is no progress, or if the node's lease has expired or its container runtime is down")
}

// limiting adds the flag that limits the duration of each check.
func (o *runFlags) limiting(cmd *cobra.Command) {
	cmd.Flags().DurationVar(&o.CheckTimeout, "check-timeout", 0, "time limit of each check, instead of the check's default")
}

// viaTried begins the help of --via.
const viaTried = "access methods to try, in this order: "

// placing adds those flags from reaching that also work in a pod. The caller may exclude access methods.
func (o *runFlags) placing(cmd *cobra.Command, refused ...string) {
	f := cmd.Flags()
	f.StringVar(&o.Via, "via", examine.ViaAuto, viaTried+examine.ViaUsage(refused...))
	o.imaging(cmd)
	f.BoolVar(&o.Privileged, "privileged", false, "give the probe pod all capabilities instead of the few that it needs")
}

// imaging adds the flags for the probe image.
func (o *runFlags) imaging(cmd *cobra.Command) {
	f := cmd.Flags()
	f.StringVar(&o.Image, "image", envOr(envImage, probeImage()), "probe image (environment: CALICO_PROBE_IMAGE)")
	f.StringVar(&o.PullSecret, "image-pull-secret", "", "image pull secret in the probe's namespace")
}

// noContradiction rejects conflicting flags.
func (o *runFlags) noContradiction(cmd *cobra.Command) error {
	if len(o.Checks) > 0 && cmd.Flags().Changed("profile") {
		return ui.BadUsage("--checks and --profile both select checks: leave out one of them")
	}
	for _, flag := range []string{"kubeconfig", "context", "cluster", "server", "as", "calico-namespace"} {
		if injector.AccessOf(o.Via).Here() && cmd.Flags().Changed(flag) {
			return ui.BadUsage("--via local does not use the API: leave out --%s, or use another access method", flag)
		}
	}
	return nil
}

func (o *runFlags) completions(cmd *cobra.Command) {
	completions(cmd, map[string]completer{
		"node":    o.nodeNames,
		"via":     viaMethods,
		"profile": oneOf(examine.ProfileNames()),
		"checks":  several(selectors),
		"skip":    several(selectors),
		"fail-on": oneOf([]string{examine.FailOnFail, examine.FailOnWarn}),
	})
}

// envImage is the variable that replaces the default probe image.
const envImage = "CALICO_PROBE_IMAGE"

func envOr(name, otherwise string) string {
	if v := os.Getenv(name); v != "" {
		return v
	}
	return otherwise
}
