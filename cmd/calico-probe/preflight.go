package main

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/calico-probe/calico-probe/cluster"
	"github.com/calico-probe/calico-probe/examine"
	"github.com/calico-probe/calico-probe/injector"
	"github.com/calico-probe/calico-probe/install"
	"github.com/calico-probe/calico-probe/output"
	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/probe/facts"
	"github.com/calico-probe/calico-probe/report"
	"github.com/calico-probe/calico-probe/suggest"
	"github.com/calico-probe/calico-probe/ui"
)

// preflightLimit bounds the whole verb.
const preflightLimit = 30 * time.Second

// The questions of preflight.
const (
	askVersion   = "api-version"
	askNode      = "node"
	askCalico    = "calico"
	askRights    = "rights"
	askAdmission = "admission"
	askImage     = "image"
	askEmbedded  = "carried-probe"
	askContainer = "container"
	askSSH       = "ssh"
)

// What is granted like a way and is none.
const (
	useShell = "shell"
	useClean = "clean"
	useServe = "serve"
)

// preflight asks whether the ways would be let through, without taking one.
type preflight struct {
	*runFlags
	client *examine.Client
	run    *examine.Run // it asks no check: it says what would be put on the node, and reports
	sink   report.Sink
	ways   []string // as named; none = those of auto, of which one is enough
	found  []probe.Event
}

func (a *app) preflight() *cobra.Command {
	p, out := &preflight{runFlags: &runFlags{app: a,
		Options: examine.Options{FailOn: examine.FailOnFail}}}, &output.Set{Family: families()}
	cmd := &cobra.Command{
		Use: "preflight [--node NODE]", Short: "Say which access methods to a node would work", Args: noArguments,
		Long: `Asks for each access method whether you have the rights it takes, whether policy and quota
admit what it creates (by a dry run: nothing is created), whether the image is on the
node, and what else can be told without going there. With --via every method named has to
work; without it one is enough. --via ssh, or --ssh, logs in and leaves again.

Exit codes: 0 ready, 3 not ready, 5 where something could not be told, 2 wrong usage, 1 the
API cannot be reached.`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			ctx, cancel := context.WithTimeout(cmd.Context(), preflightLimit)
			defer cancel()
			if err := out.Open(a.Out); err != nil {
				return err
			}
			var err error
			if p.sink, err = out.Sink(); err != nil {
				return err
			}
			out.Until(ctx)
			came := p.look(ctx)
			return out.Close(settled(out, p.report(), came))
		},
	}
	f := cmd.Flags()
	nodeFlag(f, &p.Node, "the node to go to (default: the first that is ready)")
	f.StringSliceVar(&p.ways, "via", nil, "access methods that all have to work: auto (one of them is enough), or a list of "+strings.Join(preflightWays(), ", "))
	out.Flag(cmd, report.Formats())
	p.imaging(cmd)
	f.StringVar(&p.SSH, "ssh", "", "where ssh would go: [USER@]HOST, with {node} and {ip} of the node in it (default its InternalIP)")
	f.StringVar(&p.SSHConfig, "ssh-config", "", "configuration for ssh instead of your own (ssh -F)")
	f.BoolVar(&p.Privileged, "privileged", false, "as if the probe pod were given every capability")
	a.connecting(cmd)
	completions(cmd,
		map[string]completer{"via": several(func() []string {
			return append([]string{examine.ViaAuto},
				preflightWays()...)
		})})
	p.completions(cmd)
	return cmd
}

// report is what the report is written with, also where no node could be named.
func (p *preflight) report() *examine.Collector {
	if p.run == nil {
		return examine.NewCollector(p.Node, p.sink)
	}
	return p.run.Collector
}

// preflightWays are what rights can be granted for.
func preflightWays() []string { return install.Names() }

// checkFlags refuses flags that cannot be right.
func (p *preflight) checkFlags() error {
	if slices.Equal(p.ways, []string{examine.ViaAuto}) {
		p.ways = nil
	}
	for i, way := range p.ways {
		switch {
		case !slices.Contains(preflightWays(), way):
			return ui.BadUsage("unknown access method %q%s; --via takes auto, or a list of %s",
				way, suggest.DidYouMean(way, preflightWays()), strings.Join(preflightWays(), ", "))
		case slices.Contains(p.ways[:i], way):
			return ui.BadUsage("--via names %s twice: name each access method once", way)
		}
	}
	p.Via, p.Profile, p.Timeout = examine.ViaAuto, string(probe.Standard), 2*time.Minute
	return p.Validate()
}

// look asks everything there is to ask, and reports it.
func (p *preflight) look(ctx context.Context) error {
	if err := p.checkFlags(); err != nil {
		return err
	}
	client, writer, err := p.clients()
	if err != nil {
		return err
	}
	if err := p.version(ctx, client); err != nil {
		if apierrors.IsForbidden(err) {
			return errors.New(why(err))
		}
		return err
	}
	snap, unread := p.snapshot(ctx, client)
	if unread = examine.NoSuchNode(unread); errors.As(unread, new(ui.UsageError)) {
		return unread
	}
	p.Node = cmp.Or(p.Node, "none") // nothing could be read of any, and the report is about the cluster
	if p.run, err = examine.New(p.client, p.Options, p.sink); err != nil {
		return err
	}
	if err := p.run.Begin(); err != nil {
		return err
	}
	ways := p.ways
	if len(ways) == 0 {
		ways = append([]string{injector.MethodAPI}, injector.FallbackNames()...) // as 'run' tries them
	}
	if rehearsal := p.run.Placement(injector.MethodPod, snap); slices.ContainsFunc(ways, makesPods) {
		_, _ = p.rehearse(ctx, writer, rehearsal) // which settles the namespace as a run does; what else it says comes below
	}
	if err := p.rights(ctx, client, snap, ways); err != nil {
		return err
	}
	if snap == nil {
		p.add("", askCalico, probe.Found(probe.Unknown, "nothing is known of any node: %s", why(unread)))
		return p.conclude(nil)
	}
	p.calico(snap)
	p.methods(ctx, writer, client, snap, ways)
	return p.conclude(ways)
}

// clients are the reading and the writing half of the API.
func (p *preflight) clients() (*cluster.Client, *injector.Client, error) {
	var err error
	if p.client, err = p.app.client(); err != nil {
		return nil, nil, err
	}
	config, err := p.restConfig()
	if err != nil {
		return nil, nil, err
	}
	reader, err := p.client.Reader()
	if err != nil {
		return nil, nil, err
	}
	writer, err := injector.NewClient(config)
	return reader, writer, err
}

// methods asks about each access method, all at once.
func (p *preflight) methods(
	ctx context.Context, writer *injector.Client, client *cluster.Client, snap *cluster.Snapshot, ways []string,
) {
	var all sync.WaitGroup
	found := make([][]probe.Event, len(ways))
	for i, way := range ways {
		all.Go(func() { found[i] = p.ofWay(ctx, writer, client, snap, way) })
	}
	all.Wait()
	p.found = append(p.found, slices.Concat(found...)...)
}

// makesPods tells whether a use has its rights where probe pods go.
func makesPods(way string) bool {
	return slices.Contains([]string{injector.MethodPod, injector.MethodNeighbour, useShell, useClean}, way)
}

// rehearse takes the way of a pod as a run does, but that nothing is created, and tells
// which namespace was asked last.
func (p *preflight) rehearse(ctx context.Context, writer *injector.Client,
	o injector.Options) (namespace string, err error) {
	_, err = p.client.InEitherNamespace(func(ctx context.Context, o injector.Options) (*injector.Session, error) {
		namespace = o.Namespace
		return nil, writer.RehearsePod(ctx, o)
	})(ctx, o)
	return namespace, err
}

// snapshot is what the API says of the node that was named, or of the first that is ready.
func (p *preflight) snapshot(ctx context.Context, client *cluster.Client) (*cluster.Snapshot, error) {
	if err := p.named(ctx, p.client); err != nil {
		return nil, err
	}
	if p.Node == "" {
		standings, _, err := client.Standings(ctx)
		if err != nil {
			return nil, err
		}
		ready := slices.IndexFunc(standings, func(s cluster.Standing) bool { return s.Status == probe.OK })
		if ready < 0 {
			return nil, errors.New("no node is ready: name one with --node")
		}
		p.Node = standings[ready].Node
		ui.Say(p.ErrOut, "no --node: asking about %s, the first node that is ready", p.Node)
	}
	return client.Read(ctx, p.Node)
}

func (p *preflight) add(way, check string, r probe.Result) {
	p.found = append(p.found, answerOf(way, check, r))
}

func answerOf(way, check string, r probe.Result) probe.Event {
	r.Check, r.Target = check, way
	return probe.Event{Type: probe.EventResult, Result: &r, Way: way}
}

// oldest is the first minor version of Kubernetes 1 that has all that is used here as
// stable: ephemeral containers are the youngest.
const oldest = 25

func (p *preflight) version(ctx context.Context, client *cluster.Client) error {
	v, err := client.Version(ctx)
	if err != nil {
		return err
	}
	r := probe.Found(probe.OK, "the API server is %s", v.GitVersion)
	if n, err := strconv.Atoi(strings.TrimRight(v.Minor, "+")); err == nil && v.Major == "1" && n < oldest {
		r = probe.Found(probe.Warn, "the API server is %s: before 1.%d the way ephemeral does not work everywhere", v.GitVersion, oldest)
	}
	p.add("", askVersion, r)
	return nil
}

// calico says what is amiss with the node's calico-node pod, and which pods pose as it.
func (p *preflight) calico(snap *cluster.Snapshot) {
	switch {
	case snap.CalicoErr != nil:
		p.add("", askCalico, probe.Found(probe.Unknown, "which pod is calico-node's on node %s is not known: %s",
			p.Node, why(snap.CalicoErr)))
	case snap.Calico == nil:
		in := strings.Join(cluster.Namespaces(string(p.calicoNamespace)), " or ")
		p.add("", askCalico, probe.Found(probe.Warn, "node %s has no calico-node pod (label %s, namespace %s)",
			p.Node, cluster.CalicoPods, in))
	}
	for _, r := range snap.Ignored() {
		r.Saw = strings.TrimSpace(r.Target + " " + r.Saw)
		p.add("", askCalico, r)
	}
}

// conclude shows what was found and gives the verdict. Where the user named no access method, one
// that would work is enough, and what the others lack is no more than a warning.
func (p *preflight) conclude(ways []string) error {
	worst := map[string]probe.Status{}
	for _, ev := range p.found {
		if at, s := ev.Way, ev.Result.Status; s == probe.Fail || s == probe.Unknown && worst[at] != probe.Fail {
			worst[at] = s
		}
	}
	if len(p.ways) == 0 {
		// which tries no login
		onto := slices.DeleteFunc(slices.Clone(ways), func(w string) bool {
			return w == injector.MethodAPI ||
				w == injector.MethodSSH && !p.asksSSH()
		})
		best := probe.Fail
		for _, way := range onto {
			switch {
			case worst[way] == "":
				best = probe.OK
			case worst[way] == probe.Unknown && best == probe.Fail:
				best = probe.Unknown
			}
		}
		for _, ev := range p.found {
			r := ev.Result
			if p.client.Namespace != "" && r.Facts.Str(probe.FactReason) == string(facts.ReasonNamespace) {
				continue // a run ends at it, whatever else would work
			}
			if ev.Way != "" && ev.Way != injector.MethodAPI && best != probe.Fail &&
				(r.Status == probe.Fail || r.Status == probe.Unknown && best == probe.OK) {
				r.Status = probe.Warn
			}
		}
	}
	for _, ev := range p.found {
		if err := p.run.Add(ev.Way, ev); err != nil {
			return err
		}
	}
	v := p.run.Tally.Verdict(false)
	switch {
	case v.Counts[probe.Fail] > 0:
		v.Word, v.Exit = report.WordNotReady, report.ExitFault
	case v.Counts[probe.Unknown] > 0:
		v.Word, v.Exit = report.WordIncomplete, report.ExitIncomplete
	default:
		v.Word, v.Exit = report.WordReady, report.ExitHealthy
	}
	if err := p.sink.Event(probe.Event{Type: probe.EventVerdict, Verdict: &v, Node: p.Node}); err != nil {
		return err
	}
	if v.Exit != report.ExitHealthy {
		return ui.Exit(v.Exit)
	}
	return nil
}
