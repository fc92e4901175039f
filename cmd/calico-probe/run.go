package main

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"os/user"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/kubectl/pkg/cmd/util"
	"k8s.io/kubectl/pkg/util/completion"

	"github.com/calico-probe/calico-probe/cluster"
	"github.com/calico-probe/calico-probe/diagnose"
	"github.com/calico-probe/calico-probe/output"
	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/probe/checks"
	"github.com/calico-probe/calico-probe/report"
	"github.com/calico-probe/calico-probe/ui"
)

// runOptions are the flags of the run verb.
type runOptions struct {
	*app
	node         string
	via          string
	profile      string
	want, skip   []string
	failOn       string
	image        string
	pullSecret   string
	ssh          string
	sshConfig    string
	reason       string
	privileged   bool
	timeout      time.Duration
	startTimeout time.Duration
	checkTimeout time.Duration
	peers        int

	id     string
	sink   report.Sink
	tally  *report.Tally
	seen   diagnose.Findings
	picked []*probe.Check
	quiet  bool // what it does is told by others
	keep   bool // of a session: the probe is to outlive a line that is cut
	// forShell says that the probe is to start a shell.
	forShell bool
	warm     *seat // of a session: the probe is there already; nil = it is put there for this run
}

const runExample = `  # everything about one node
  calico-probe run --node worker-3

  # the few questions that are answered at once, with the fewest privileges
  calico-probe run --node worker-3 --profile quick

  # only what the API knows: nothing is created
  calico-probe run --node worker-3 --via api

  # how the node looks from its healthy neighbours: nothing is put on it
  calico-probe run --node worker-3 --via neighbour

  # two families of checks, for a pipeline
  calico-probe run --node worker-3 --checks bgp,felix -o json

  # what is bad on the screen, and files for CI and for the ticket
  calico-probe run --node worker-3 -o junit=probe.xml -o markdown=ticket.md

  # one field, as kubectl has it
  calico-probe run --node worker-3 -o jsonpath='{.causes[0].fix.manifest}'`

func (a *app) run(factory util.Factory) *cobra.Command {
	o, out := &runOptions{app: a}, &output.Set{Family: families()}
	cmd := &cobra.Command{
		Use: "run --node NODE", Short: "Test one node and report what was seen", Example: runExample,
		Long: `Asks the API about the node, puts a probe on it by whichever way works, streams what it
sees, and names the causes with their proof and their fix, which is never run.

` + exitCodes(),
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) > 0 {
				return badUsage("unexpected argument %q: name the node with --node %s", args[0], args[0])
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := o.asTyped(cmd); err != nil {
				return err
			}
			if err := o.complete(); err != nil {
				return err
			}
			if err := o.isHere(); err != nil {
				return err
			}
			if err := out.Open(a.Out); err != nil {
				return err
			}
			ctx, cancel := context.WithTimeoutCause(cmd.Context(), o.timeout, overError(o.timeout))
			defer cancel()
			out.Until(ctx)
			var err error
			if o.sink, err = out.Sink(); err != nil {
				return err
			}
			return out.Close(o.settled(out, o.do(ctx)))
		},
	}
	f := cmd.Flags()
	f.StringVar(&o.node, "node", "", "the node to test")
	out.Flag(cmd, report.Formats())
	f.StringVar(&o.failOn, "fail-on", "fail", "what makes the exit code non-zero: fail, or warn for warnings too")
	f.IntVar(&o.peers, "peers", 2, "how many healthy nodes to ask too when something is wrong: their answers, how the node looks from there, both ends of BGP sessions; 0 = none")
	o.asking(cmd)
	a.connecting(f)
	o.completions(cmd, factory)
	return cmd
}

// exitCodes lists what the program exits with, for help.
func exitCodes() string {
	var b strings.Builder
	b.WriteString("Exit codes:")
	for _, c := range report.ExitCodes() {
		fmt.Fprintf(&b, "\n  %-4d %s", c.Code, c.Means)
	}
	return b.String()
}

// asking adds the flags that say what a node is asked, and how.
func (o *runOptions) asking(cmd *cobra.Command) {
	f := cmd.Flags()
	f.StringVar(&o.profile, "profile", string(probe.Standard), "how much to ask: quick, standard or deep; --checks asks any")
	f.StringSliceVar(&o.want, "checks", nil, "only these checks: IDs, how they begin, globs or tags, separated by commas")
	f.StringSliceVar(&o.skip, "skip", nil, "not these checks, likewise")
	o.reaching(cmd)
}

// reaching adds the flags that say how a node is asked.
func (o *runOptions) reaching(cmd *cobra.Command) {
	f := cmd.Flags()
	f.StringVar(&o.ssh, "ssh", "", "where ssh goes: [USER@]HOST, with {node} and {ip} of the node in it (default its InternalIP); none keeps auto from trying it")
	f.StringVar(&o.sshConfig, "ssh-config", "", "configuration for ssh instead of your own (ssh -F)")
	f.StringVar(&o.reason, "reason", "", "why this is run; written on what is created, for auditors")
	o.placing(cmd)
	f.DurationVar(&o.timeout, "timeout", 2*time.Minute, "limit of the whole run")
	f.DurationVar(&o.startTimeout, "start-timeout", 0, "how long to wait for a pod or an ephemeral container to start, and for the first word by exec and ssh (default 40s and 15s; less when nothing at all happens, the node's lease has run out or its runtime is down)")
	f.DurationVar(&o.checkTimeout, "check-timeout", 0, "limit of each check instead of its own")
}

// placing adds those of them that do in a pod too.
func (o *runOptions) placing(cmd *cobra.Command) {
	f := cmd.Flags()
	f.StringVar(&o.via, "via", "auto", "way onto the node: auto, "+strings.Join(wayNames(), ", "))
	f.StringVar(&o.image, "image", envOr("CALICO_PROBE_IMAGE", probeImage()), "probe image (environment: CALICO_PROBE_IMAGE)")
	f.StringVar(&o.pullSecret, "image-pull-secret", "", "secret in the probe's namespace to pull the image with")
	f.BoolVar(&o.privileged, "privileged", false, "give the probe pod every capability instead of the few it needs")
}

// asTyped refuses flags that contradict each other.
func (o *runOptions) asTyped(cmd *cobra.Command) error {
	if len(o.want) > 0 && cmd.Flags().Changed("profile") {
		return badUsage("--checks names the checks itself: leave out --profile, or --checks")
	}
	for _, flag := range []string{"kubeconfig", "context", "cluster", "server", "as", "calico-namespace"} {
		if o.via == wayLocal && cmd.Flags().Changed(flag) {
			return badUsage("--via local asks no API: leave out --%s, or use another way", flag)
		}
	}
	return nil
}

func (o *runOptions) completions(cmd *cobra.Command, factory util.Factory) {
	completions(cmd, map[string]completer{
		"node": func(_ *cobra.Command, _ []string, typed string) ([]string, cobra.ShellCompDirective) {
			return completion.CompGetResource(factory, "node", typed), cobra.ShellCompDirectiveNoFileComp
		},
		"calico-namespace": func(_ *cobra.Command, _ []string, typed string) ([]string, cobra.ShellCompDirective) {
			return completion.CompGetResource(factory, "namespace", typed), cobra.ShellCompDirectiveNoFileComp
		},
		"via":     oneOf(append([]string{"auto"}, wayNames()...)),
		"profile": oneOf(profileNames()),
		"checks":  several(selectors),
		"skip":    several(selectors),
		"fail-on": oneOf([]string{"fail", "warn"}),
	})
}

// complete checks the flags against each other before anything is asked.
func (o *runOptions) complete() error {
	var err error
	switch {
	case o.node == "" && o.via == wayLocal:
		if o.node, err = os.Hostname(); err != nil {
			return fmt.Errorf("asking for this host's name: %w", err)
		}
	case o.node == "":
		return badUsage("no node is named: use --node NODE ('kubectl get nodes' lists them)")
	}
	if o.via != "auto" && !slices.Contains(wayNames(), o.via) {
		return badUsage("unknown way %q: --via takes auto, %s", o.via, strings.Join(wayNames(), ", "))
	}
	if err := o.checkSSH(); err != nil {
		return err
	}
	if err := o.inNamespace(); err != nil {
		return err
	}
	if err := imageName("image", o.image); err != nil {
		return err
	}
	if o.ssh == sshNone && o.via == waySSH {
		return badUsage("--via ssh and --ssh none: leave out one of them")
	}
	if o.failOn != "fail" && o.failOn != "warn" {
		return badUsage("unknown level %q: --fail-on takes fail or warn", o.failOn)
	}
	if o.timeout < time.Second {
		return badUsage("--timeout must be a second or more")
	}
	if o.checkTimeout < 0 || o.startTimeout < 0 {
		return badUsage("--check-timeout and --start-timeout must not be negative")
	}
	if !slices.Contains(probe.Profiles(), probe.Profile(o.profile)) {
		return badUsage("unknown profile %q: --profile takes %s", o.profile, strings.Join(profileNames(), ", "))
	}
	if o.picked, err = pick(o.want, o.skip, o.profile); err != nil {
		return badUsage("%w; 'calico-probe checks' lists them", err)
	}
	if len(o.picked) == 0 {
		return badUsage("--checks and --skip leave no check to run")
	}
	if o.peers < 0 || o.via == wayNeighbour && o.peers == 0 {
		return badUsage("--peers must not be negative, nor 0 with --via neighbour")
	}
	if o.via == wayNeighbour && len(o.want) == 0 {
		o.picked = slices.DeleteFunc(o.picked, func(c *probe.Check) bool { return c.OnNode() })
		o.picked = append(o.picked, checks.BGPSession, checks.NeighbourReach)
	}
	if err := o.askable(); err != nil {
		return err
	}
	o.id, o.tally, o.seen = newRunID(), report.NewTally(), diagnose.Findings{Node: o.node}
	return nil
}

// checkSSH refuses a destination that ssh refuses, and a configuration that is not there.
func (o *runOptions) checkSSH() error {
	to := strings.NewReplacer("{node}", "", "{ip}", "").Replace(o.ssh)
	if strings.HasPrefix(to, "-") || strings.HasSuffix(o.ssh, "@") || strings.ContainsAny(to, " \t\n'`\";&<>|(){}") {
		return badUsage("--ssh %q is no destination: name [USER@]HOST, with {node} or {ip} in it for the node's own", o.ssh)
	}
	if o.sshConfig == "" || o.sshConfig == "none" { // which is ssh's word for no file
		return nil
	}
	file, err := os.Stat(o.sshConfig)
	switch {
	case err != nil:
		return badUsage("--ssh-config: %w", err)
	case file.IsDir():
		return badUsage("--ssh-config: %s is a folder", o.sshConfig)
	}
	return nil
}

// pick is which checks --checks, --skip and --profile stand for.
func pick(want, skip []string, profile string) ([]*probe.Check, error) {
	picked, err := probe.Select(suite(), want, skip)
	if len(want) == 0 {
		picked = probe.Within(picked, probe.Profile(profile))
	}
	return picked, err
}

func profileNames() []string {
	var out []string
	for _, p := range probe.Profiles() {
		out = append(out, string(p))
	}
	return out
}

// askable refuses checks named by the user that the way named by the user cannot
// ask: a report without them would pass for a good one.
func (o *runOptions) askable() error {
	var cannot []string
	for _, c := range o.picked {
		fromPeers := c == checks.NeighbourReach || o.via == wayNeighbour && c == checks.BGPSession
		if c.From == probe.FromClient || c.OnNode() && (o.via == wayAPI || o.via == wayNeighbour && !fromPeers) ||
			o.via == wayLocal && (c.From == probe.FromAPI || c == checks.NeighbourReach) {
			cannot = append(cannot, c.ID)
		}
	}
	switch {
	case len(cannot) == len(o.picked) && !slices.Contains([]string{wayAPI, wayLocal, wayNeighbour}, o.via):
		return badUsage("%s is answered by every run that goes onto the node; name other checks too", strings.Join(cannot, ", "))
	case len(o.want) > 0 && len(cannot) > 0 && slices.Contains([]string{wayAPI, wayLocal, wayNeighbour}, o.via):
		return badUsage("--via %s cannot ask %s: use another way, or leave them out", o.via, strings.Join(cannot, ", "))
	}
	return nil
}

// do is the whole job: the API first, then a way onto the node, then the verdict.
func (o *runOptions) do(ctx context.Context) error {
	ctx, cancel := context.WithTimeoutCause(ctx, o.timeout, overError(o.timeout))
	defer cancel()
	err := o.ask(ctx)
	if over, ok := errors.AsType[overError](context.Cause(ctx)); ok && err != nil && !errors.As(err, new(exit)) {
		return over // whatever it interrupted
	}
	return err
}

// settled has the files of a run that came to no verdict say so: what was there before is
// gone, and whoever reads only the file would take an empty one for good news, or an
// older one for this run's. It returns what the run came to.
func (o *runOptions) settled(out *output.Set, came error) error {
	if came == nil || errors.As(came, new(exit)) || errors.Is(came, output.ErrAllBroken) {
		return came
	}
	o.sink = out.FilesSink()
	if o.tally == nil { // it did not begin
		o.tally, o.seen = report.NewTally(), diagnose.Findings{Node: o.node}
	}
	why := explainError(came)
	if errors.Is(came, context.Canceled) {
		why = "it was stopped"
	}
	r := probe.Found(probe.Unknown, "the run did not come to its end: %s", why)
	r.Check = probe.CheckAnswered
	if o.emit("", probe.Event{Type: probe.EventResult, Result: &r}) == nil {
		_ = o.conclude() // its exit code is not that of the run, and a file that breaks says so
	}
	return came
}

// overError says that the run's own time is over.
type overError time.Duration

func (e overError) Error() string { return fmt.Sprintf("--timeout %v is over", time.Duration(e)) }

// Sentence marks it as written for the user (cluster.Sentence).
func (e overError) Sentence() {}

func (o *runOptions) ask(ctx context.Context) error {
	if err := o.begun(); err != nil {
		return err
	}
	if err := o.gather(ctx); err != nil {
		return err
	}
	return o.conclude()
}

// begun says which cluster is asked from now on.
func (o *runOptions) begun() error {
	at, err := o.where()
	if err != nil {
		return err
	}
	own := probe.Start{V: probe.Version, Version: probe.Release, Run: o.id, Time: time.Now().UTC(), Cluster: at}
	return o.emit("", probe.Event{Type: probe.EventRun, Start: &own})
}

// where is the cluster that is asked, nil by the way that asks none.
func (o *runOptions) where() (*probe.Cluster, error) {
	if o.via == wayLocal {
		return nil, nil
	}
	return o.chosen()
}

// read is what the API says of the node: nil by the way that asks none.
func (o *runOptions) read(ctx context.Context) (*cluster.Client, *cluster.Snapshot, error) {
	if o.via == wayLocal {
		return nil, nil, nil
	}
	client, err := o.cluster()
	if err != nil {
		return nil, nil, err
	}
	o.progress("asking the API about %s", o.node)
	snap, err := client.Read(ctx, o.node)
	if err != nil {
		return nil, nil, notSuchNode(err)
	}
	return client, snap, nil
}

// gather asks everything there is to ask.
func (o *runOptions) gather(ctx context.Context) error {
	read := o.read
	if o.warm != nil {
		read = o.warm.fresh
	}
	client, snap, err := read(ctx)
	if err != nil {
		return err
	}
	if snap != nil {
		if err := o.askAPI(ctx, snap); err != nil {
			return err
		}
	}
	var looking *glance
	// Getting onto a silent node takes as long as is allowed, and hardly succeeds.
	if o.contrasts(snap) && (o.via == wayNeighbour || cluster.KubeletSilent(snap)) {
		looking = o.begin(ctx, client, snap)
	}
	// A node that gives its neighbours no answer is not slow, and need not be waited for.
	lives := func() bool {
		if looking == nil && o.contrasts(snap) {
			looking = o.begin(ctx, client, snap)
		}
		return looking == nil || !looking.heardNothing(cluster.KubeletSilent(snap))
	}
	switch {
	case !o.goesOnto():
	case o.warm != nil:
		err = o.warm.askNode(ctx, o, snap)
	default:
		err = o.askNode(ctx, snap, lives)
	}
	if looking == nil && err == nil && ctx.Err() == nil && o.contrasts(snap) && (len(o.want) > 0 || troubled(o.seen)) {
		looking = o.begin(ctx, client, snap)
	}
	if looking != nil {
		err = errors.Join(err, o.tell(looking.wait()))
	}
	return err
}

// goesOnto tells whether a probe is to be put on the node itself.
func (o *runOptions) goesOnto() bool {
	return o.via != wayAPI && o.via != wayNeighbour && (len(o.nodeChecks()) > 0 || slices.Contains(o.picked, checks.EncapProof))
}

// conclusion is what follows from what a run saw, live or saved.
type conclusion struct {
	sink    report.Sink
	tally   *report.Tally
	seen    diagnose.Findings
	node    string
	strict  bool           // warnings have an exit code of their own
	elapsed *time.Duration // of a saved run
	causes  []probe.Cause  // once concluded
}

func (o *runOptions) conclude() error {
	c := conclusion{sink: o.sink, tally: o.tally, seen: o.seen, node: o.node, strict: o.failOn == "warn"}
	return c.conclude()
}

// conclude shows how the node compares with its peers, the causes and the verdict; the
// error carries the exit code.
func (c *conclusion) conclude() error {
	show := func(ev probe.Event) error {
		ev.Node = c.node
		return c.sink.Event(ev)
	}
	for _, line := range diagnose.Contrast(c.seen) {
		if err := show(probe.Event{Type: probe.EventContrast, Text: line}); err != nil {
			return err
		}
	}
	found := diagnose.Explain(c.seen, diagnose.Rules())
	c.causes = found.Causes
	for _, cause := range found.Causes {
		ev := probe.Event{Type: probe.EventCause, Cause: &cause}
		c.tally.Add(ev)
		if err := show(ev); err != nil {
			return err
		}
	}
	v := c.tally.Verdict(c.strict)
	v.Unexplained = found.Unexplained
	if c.elapsed != nil {
		v.Elapsed = *c.elapsed
	}
	if err := show(probe.Event{Type: probe.EventVerdict, Verdict: &v}); err != nil {
		return err
	}
	if v.Exit != report.ExitHealthy {
		return exit(v.Exit)
	}
	return nil
}

// askAPI runs the checks of the API tier over the snapshot.
func (o *runOptions) askAPI(ctx context.Context, snap *cluster.Snapshot) error {
	own := cluster.Checks(snap)
	var ids []string
	for _, c := range o.picked {
		if c.From == probe.FromAPI {
			ids = append(ids, c.ID)
		}
	}
	if len(ids) == 0 {
		return nil
	}
	var failed error
	runner := probe.Runner{Suite: own, Host: &probe.Host{Node: o.node}, Version: probe.Release}
	runner.Run(ctx, probe.Plan{Run: o.id, Node: o.node, Way: wayAPI, Checks: ids}, func(ev probe.Event) {
		if err := o.emit(wayAPI, ev); err != nil && failed == nil {
			failed = err
		}
	})
	return failed
}

// emit cleans an event, stamps it with where it came from, counts it and shows it.
func (o *runOptions) emit(way string, ev probe.Event) error {
	ev = ev.Cleaned()
	ev.Node, ev.Way = o.node, way
	o.tally.Add(ev)
	o.seen.Add(ev)
	return o.sink.Event(ev)
}

// emitOf passes on what another node answered, which the causes may rest on and the
// verdict about this node does not count.
func (o *runOptions) emitOf(node, way string, ev probe.Event) error {
	ev = ev.Cleaned()
	ev.Node, ev.Way = node, way
	o.seen.Add(ev)
	return o.sink.Event(ev)
}

// nodeChecks are the checks one probe answers.
func (o *runOptions) nodeChecks() []string {
	var ids []string
	for _, c := range o.picked {
		// The proof takes two probes, and of itself a node knows how it looks.
		if c.OnNode() && c != checks.NeighbourReach && (c != checks.EncapProof || o.via == wayLocal) {
			ids = append(ids, c.ID)
		}
	}
	return ids
}

// progress is for a person who waits; nobody else needs it.
func (o *runOptions) progress(format string, args ...any) {
	if ui.IsTerminal(o.ErrOut) && !o.quiet {
		say(o.ErrOut, format, args...)
	}
}

// notSuchNode makes a misnamed node the user's mistake, not the tool's.
func notSuchNode(err error) error {
	if _, ok := err.(*cluster.UnknownNodeError); ok {
		return badUsage("%w", err)
	}
	return err
}

// newRunID tells runs apart in labels and logs.
func newRunID() string {
	b := make([]byte, 4)
	_, _ = rand.Read(b) // never fails (crypto/rand)
	return hex.EncodeToString(b)
}

// whoami is who runs this, for the labels of what is created.
func whoami() string {
	name := os.Getenv("USER")
	if u, err := user.Current(); err == nil {
		name = u.Username
	}
	if host, err := os.Hostname(); err == nil {
		name += "@" + host
	}
	return name
}

func envOr(name, otherwise string) string {
	if v := os.Getenv(name); v != "" {
		return v
	}
	return otherwise
}
