package main

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/calico-probe/calico-probe/injector"
	"github.com/calico-probe/calico-probe/internal/apierror"
	"github.com/calico-probe/calico-probe/internal/cluster"
	"github.com/calico-probe/calico-probe/internal/examine"
	"github.com/calico-probe/calico-probe/internal/output"
	"github.com/calico-probe/calico-probe/internal/report"
	"github.com/calico-probe/calico-probe/internal/runbook"
	suiteapi "github.com/calico-probe/calico-probe/internal/subject/suite/api"
	"github.com/calico-probe/calico-probe/internal/ui"
	"github.com/calico-probe/calico-probe/probe"
)

// runbookOptions are the flags of 'runbook run'.
type runbookOptions struct {
	*runFlags
	client          *examine.Client
	quiet           bool // report its runs' progress only through Waits
	out             output.Set
	dirs            []string
	params, answers []string
	actions         []string
	resume, journal string
	runTimeout      time.Duration
	placed          map[string]bool // nodes on which its steps placed probes
	lines           chan lineRead   // lines that the user types, after the first question
	clock           stopwatch       // measures the whole runbook
}

const runbookExample = `  # run the runbook for the alert KubeNodeNotReady manually
  calico-probe runbook run node-not-ready --node worker-3

  # also write a record for the ticket
  calico-probe runbook run node-not-ready --node worker-3 -o markdown=ticket.md

  # run your own runbook unattended
  calico-probe runbook run ./ours.yaml --node worker-3 --answer fixed=done < /dev/null

  # resume after the terminal was lost; the first line on stderr shows this command
  calico-probe runbook run --resume FILE`

func (a *app) runbookRun() *cobra.Command {
	o := &runbookOptions{runFlags: &runFlags{app: a, Options: examine.Options{Profile: string(probe.Standard),
		FailOn: examine.FailOnFail}}}
	cmd := &cobra.Command{
		Use: "run NAME|FILE --node NODE", Short: "Run a runbook on a node", Example: runbookExample,
		Long: `Runs a runbook step by step, and prints what each step saw and decided. It writes every step
to a journal. 'runbook run --resume FILE' continues after the terminal or the client is lost.
'runbook record FILE' prints the record of a journal. Without --journal, the journal is in the
user's state folder, where calico-probe keeps the latest 100 journals of the last 30 days.

A runbook can contain actions, which can change something. It only shows an action unless
--allow-actions names the action's step. Then you see the dry run and what the action destroys,
and confirm by typing the name of the step on the terminal. Commands in check and notify steps
run as your user, without confirmation. The dryRun and keep commands of an allowed action run
before you confirm. If another author wrote the runbook, read it before you run it.

The exit code is the conclusion of the runbook: 0 healthy, 3 a fault, 5 incomplete. If the
runbook has no conclusion, it is the exit code of the last run. If an assert or a wait stops the
runbook, the exit code is 3 if the last run saw a fault, otherwise 5.`,
		ValidArgsFunction: completeRunbook(&o.dirs),
		Args: func(_ *cobra.Command, args []string) error {
			switch {
			case o.resume != "" && len(args) > 0:
				return ui.BadUsage("--resume continues the runbook of its journal: leave out %q", args[0])
			case o.resume == "" && len(args) != 1:
				return ui.BadUsage("name one runbook or runbook file; 'calico-probe runbook list' lists runbooks")
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			if o.resume != "" {
				return o.goOn(cmd)
			}
			return o.begin(cmd, args[0])
		},
	}
	o.addFlags(cmd)
	return cmd
}

func (o *runbookOptions) addFlags(cmd *cobra.Command) {
	f := cmd.Flags()
	nodeFlag(f, &o.Node, "the node to run the runbook on")
	o.out.Flag(cmd, recordFormats())
	f.StringArrayVar(&o.params, "param", nil, "set a parameter of the runbook, NAME=VALUE; may be repeated")
	f.StringArrayVar(&o.answers, "answer", nil, "answer a question of the runbook in advance, STEP=TEXT; may be repeated")
	f.StringSliceVar(&o.actions, "allow-actions", nil, "steps whose actions may run, separated by commas; you see the dry run of each action and confirm it on the terminal")
	folders(cmd, &o.dirs)
	f.StringVar(&o.journal, "journal", "", "new file for the journal (default: a file in the user's state folder)")
	f.StringVar(&o.resume, "resume", "", "continue the runbook of this journal, with the same node, parameters and flags")
	f.IntVar(&o.Baselines, "baselines", 2, "number of healthy nodes that each run compares with, see 'run --help'; 0 = none")
	o.reaching(cmd)
	o.limiting(cmd)
	o.consenting(f)
	f.Lookup("yes").Usage += "; does not confirm actions"
	f.Lookup("timeout").DefValue, o.Timeout = runbook.Limit.String(), runbook.Limit
	f.Lookup("timeout").Usage = "time limit of the whole runbook"
	f.DurationVar(&o.runTimeout, "run-timeout", 2*time.Minute, "time limit of each run on a node")
	o.connecting(cmd)
	completions(cmd, map[string]completer{"allow-actions": o.completeActions})
	o.completions(cmd)
}

// completeActions completes the actions of the named runbook.
func (o *runbookOptions) completeActions(_ *cobra.Command, args []string, _ string) ([]string,
	cobra.ShellCompDirective) {
	if len(args) == 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	it, err := findRunbook(args[0], o.dirs)
	if err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	return it.Runbook.Actions(), cobra.ShellCompDirectiveNoFileComp
}

// begin starts a runbook.
func (o *runbookOptions) begin(cmd *cobra.Command, name string) error {
	it, err := findRunbook(name, o.dirs)
	if err != nil {
		return err
	}
	params, answers, err := o.given(it.Runbook, nil)
	if err != nil {
		return err
	}
	server, err := o.ready(name)
	if err != nil {
		return err
	}
	if err := o.client.Resolve(cmd.Context(), &o.Options); err != nil {
		return err
	}
	at, err := o.client.ClusterOf(o.Options)
	if err != nil {
		return err
	}
	if err := o.hasNode(cmd.Context()); err != nil { // otherwise its journal could never be resumed
		return err
	}
	header := runbook.Header{
		Runbook: it.Runbook.Metadata.Name, Digest: it.Runbook.Digest(), File: it.File,
		Source: it.Runbook.Source(), Node: o.Node,
		Params: params, Flags: flagsToKeep(cmd), Server: server, Cluster: at, By: ui.Whoami(), At: time.Now().UTC(),
	}
	j, err := o.createJournal(header)
	if err != nil {
		return err
	}
	return o.walk(cmd.Context(), it.Runbook, j, answers)
}

// goOn resumes a runbook from its journal.
func (o *runbookOptions) goOn(cmd *cobra.Command) (err error) {
	if o.journal != "" {
		return ui.BadUsage("--resume continues its own journal: leave out --journal")
	}
	for _, flag := range []string{"node", "param"} {
		if cmd.Flags().Changed(flag) {
			return ui.BadUsage("--resume takes the node and the parameters from the journal: leave out --%s", flag)
		}
	}
	j, err := runbook.OpenJournal(o.resume, true)
	if err != nil {
		return ui.BadUsage("%w", err)
	}
	defer func() {
		if err != nil && !errors.As(err, new(ui.Exit)) {
			_ = j.Close() // may already be closed
		}
	}()
	rb, err := runbook.Load(j.Header.File, []byte(j.Header.Source), knownToRunbooks())
	if err != nil {
		return ui.BadUsage("%w", err)
	}
	for name, values := range j.Header.Flags {
		if err := setAgain(cmd, name, values); err != nil {
			return ui.BadUsage("%s: --%s: %w", o.resume, name, err)
		}
	}
	o.Node = j.Header.Node
	_, answers, err := o.given(rb, j.Header.Params)
	if err != nil {
		return err
	}
	server, err := o.ready(o.resume)
	switch {
	case err != nil:
		return err
	case server != j.Header.Server:
		return ui.BadUsage("%s is about a node of %s, but this is %s: choose the cluster with --context or --kubeconfig", o.resume, cmp.Or(j.Header.Server, "no cluster"), cmp.Or(server, "no cluster"))
	}
	if err := j.Resume(ui.Whoami()); err != nil {
		return err
	}
	return o.walk(cmd.Context(), rb, j, answers)
}

// given parses the parameters and answers of the command line. It adds the parameters of a resumed runbook, and
// validates all of them against the runbook.
func (o *runbookOptions) given(rb *runbook.Runbook, had map[string]string) (params,
	answers map[string]string, err error) {
	if params, err = pairs("param", "NAME=VALUE", o.params); err != nil {
		return nil, nil, err
	}
	maps.Copy(params, had)
	if answers, err = pairs("answer", "STEP=TEXT", o.answers); err != nil {
		return nil, nil, err
	}
	if params, answers, err = rb.Given(params, answers, o.actions); err != nil {
		return nil, nil, ui.BadUsage("%w", err)
	}
	return params, answers, nil
}

func pairs(flag, form string, typed []string) (map[string]string, error) {
	out := map[string]string{}
	for _, t := range typed {
		name, value, ok := strings.Cut(t, "=")
		if _, twice := out[name]; !ok || name == "" || twice {
			return nil, ui.BadUsage("--%s takes %s, and each name only once; %q is wrong", flag, form, t)
		}
		out[name] = value
	}
	return out, nil
}

// ready validates the flags against each other and against the input file. It returns the API that the runbook will
// use, or "".
func (o *runbookOptions) ready(read string) (server string, err error) {
	if err := o.out.Open(o.Out, output.Inputs(o.In, read)...); err != nil {
		return "", err
	}
	if o.Timeout < time.Second || o.runTimeout < time.Second {
		return "", ui.BadUsage("--timeout and --run-timeout must be a second or more")
	}
	one := o.once(runbook.Run{})
	if err := one.Complete(); err != nil {
		return "", err
	}
	o.Node = one.Node // with --via local the node is this host
	if o.client, err = o.app.client(); err != nil {
		return "", err
	}
	o.client.Consent = o.agreement(o.readLine) // only readLine reads from the terminal, and it stops the runbook's clock
	if injector.AccessOf(o.Via).Here() {
		return "", one.ThisNode()
	}
	config, err := o.restConfig()
	if err != nil {
		return "", err
	}
	return apiOf(config)
}

// hasNode returns an error if the node does not exist or the user has no permission to read it. It ignores an
// unreachable API: the runbook reports this and can be resumed later.
func (o *runbookOptions) hasNode(ctx context.Context) error {
	if injector.AccessOf(o.Via).Here() {
		return nil
	}
	client, err := o.client.Reader()
	if err != nil {
		return err
	}
	if err := client.HasNode(ctx, o.Node); errors.As(err, new(*cluster.UnknownNodeError)) || apierrors.IsForbidden(err) {
		return examine.NoSuchNode(err)
	}
	return nil
}

// once returns the options for one run of the runbook, as if a user had set them.
func (o *runbookOptions) once(r runbook.Run) examine.Options {
	one := o.Options
	one.Checks, one.Skip, one.Profile, one.Via = r.Checks, r.Skip, cmp.Or(r.Profile,
		string(probe.Standard)), cmp.Or(r.Via, o.Via)
	one.Timeout = o.runTimeout
	return one
}

// walk runs the runbook and writes its record and outcome.
func (o *runbookOptions) walk(ctx context.Context, rb *runbook.Runbook, j *runbook.Journal,
	answers map[string]string) error {
	defer func() { _ = j.Close() }() // every line is already written, or its error was reported
	again := "calico-probe runbook run --resume " + runbook.Quoted([]string{j.Name()}) + o.secretFlags()
	if j.Name() != "" {
		ui.Say(o.ErrOut, "to resume if this terminal is lost: %s", again)
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	o.clock = stopwatch{left: o.Timeout, over: func() { cancel(examine.TimeoutError(o.Timeout)) }}
	o.clock.run()
	defer o.clock.stop()
	person := &rewritten{to: o.ErrOut}
	o.ErrOut, o.client = person, o.client.Writing(person)
	e := &runbook.Engine{
		Runbook: rb, Journal: j, Answers: answers, Actions: o.actions, Commands: true,
		World: runbook.World{
			Run: o.runOn, Agree: o.agree, Fleet: o.lookAt, Nodes: o.nodes, Ask: o.askPerson, Confirm: o.confirm,
			Show: func(e runbook.Entry) error {
				return o.out.Each(func(to *output.Place) error { return writeStep(to, e) })
			},
			Progress: func(text string) { o.speaking().Progress("%s", text) },
			Say:      func(text string) { ui.Say(o.ErrOut, "%s", text) },
			Waits: func(text string) { // only the runbook reports the progress of its runs
				if o.quiet = text != ""; !o.quiet {
					person.leave()
					return
				}
				person.say(text)
			},
			Who: ui.Whoami(), Unattended: !o.atTerminal(),
		},
	}
	e.World.Kubeconfig, e.World.NoKubectl = o.kubeconfig()
	started := &runbook.Record{Runbook: rb.Metadata.Name, Title: rb.Spec.Title, Node: o.Node,
		Cluster: j.Header.Cluster, Began: j.Header.At}
	o.out.Until(ctx)
	if err := o.out.Each(func(to *output.Place) error { return writeHead(to, started) }); err != nil {
		return o.out.Close(err)
	}
	r, err := e.Do(ctx)
	if unheard := writeEnd(&o.out, r); err == nil {
		err = unheard
	}
	if !j.Ended && j.Name() != "" {
		ui.Say(o.ErrOut, "to resume: %s", again)
	}
	switch {
	case err != nil:
		if errors.As(err, new(runbook.Mistake)) {
			err = ui.BadUsage("%w", err)
		}
	case r.Outcome.Exit != report.ExitHealthy:
		err = ui.Exit(r.Outcome.Exit)
	}
	return o.out.Close(err)
}

// speaking returns the client that prints messages for a person. The client is quiet while the runbook prints its
// progress.
func (o *runbookOptions) speaking() *examine.Client {
	if o.quiet {
		return o.client.Quiet()
	}
	return o.client
}

// runOn starts a run on a node.
func (o *runbookOptions) runOn(ctx context.Context, node string, r runbook.Run) (report.Run, error) {
	one := o.once(r)
	one.Node = node
	run, err := examine.Record(ctx, o.speaking(), one)
	if errors.As(err, new(ui.UsageError)) {
		err = runbook.Mistake{Err: err}
	} else if err != nil {
		err = errors.New(apierror.Explain(err))
	}
	return run, err
}

// nodes returns the nodes that match a selector, or a number of ready nodes. It omits the node named by besides.
func (o *runbookOptions) nodes(ctx context.Context, n runbook.Nodes, besides string) ([]string, error) {
	client, err := o.client.Reader()
	if err != nil {
		return nil, err
	}
	if n.Selector != "" {
		names, err := client.Named(ctx, n.Selector)
		if err != nil {
			return nil, errors.New(apierror.Explain(err))
		}
		return slices.DeleteFunc(names, func(n string) bool { return n == besides }), nil
	}
	all, _, err := suiteapi.Standings(ctx, client)
	if err != nil {
		return nil, errors.New(apierror.Explain(err))
	}
	var out []string
	for _, s := range slices.Backward(all) { // the healthiest nodes are last
		if s.Node != besides && s.Status == probe.OK && len(out) < n.Others {
			out = append(out, s.Node)
		}
	}
	return out, nil
}
