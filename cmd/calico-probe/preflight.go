package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/kubectl/pkg/cmd/util"

	"github.com/calico-probe/calico-probe/cluster"
	"github.com/calico-probe/calico-probe/examine"
	"github.com/calico-probe/calico-probe/injector"
	"github.com/calico-probe/calico-probe/install"
	"github.com/calico-probe/calico-probe/output"
	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/probe/facts"
	"github.com/calico-probe/calico-probe/report"
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
	askCarried   = "carried-probe"
	askDoor      = "container"
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

func (a *app) preflight(factory util.Factory) *cobra.Command {
	p, out := &preflight{runFlags: &runFlags{app: a, Options: examine.Options{FailOn: examine.FailOnFail}}}, &output.Set{Family: families()}
	cmd := &cobra.Command{
		Use: "preflight [--node NODE]", Short: "Say whether the ways onto a node would be let through", Args: noArguments,
		Long: `Asks for each way whether you have the rights it takes, whether policy and quota admit
what it creates (by a dry run: nothing is created), whether the image is on the
node, and what else can be told without going there. With --via every way named
has to work; without it one way onto the node is enough.

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
	f.StringVar(&p.Node, "node", "", "the node to go to (default: the first that is ready)")
	f.StringSliceVar(&p.ways, "via", nil, "what has to work: "+strings.Join(preflightWays(), ", "))
	out.Flag(cmd, report.Formats())
	p.imaging(cmd)
	f.StringVar(&p.SSH, "ssh", "", "where ssh would go: [USER@]HOST, with {node} and {ip} of the node in it (default its InternalIP)")
	f.StringVar(&p.SSHConfig, "ssh-config", "", "configuration for ssh instead of your own (ssh -F)")
	f.BoolVar(&p.Privileged, "privileged", false, "as if the probe pod were given every capability")
	a.connecting(f)
	completions(cmd, map[string]completer{"via": several(preflightWays)})
	p.completions(cmd, factory)
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

func (p *preflight) look(ctx context.Context) error {
	for _, way := range p.ways {
		if !slices.Contains(preflightWays(), way) {
			return badUsage("unknown way %q: --via takes %s", way, strings.Join(preflightWays(), ", "))
		}
	}
	p.Via, p.Profile, p.Timeout = examine.ViaAuto, string(probe.Standard), 2*time.Minute
	if err := p.Validate(); err != nil {
		return err
	}
	var err error
	if p.client, err = p.app.client(); err != nil {
		return err
	}
	config, err := p.restConfig()
	if err != nil {
		return err
	}
	client, err := p.client.Reader()
	if err != nil {
		return err
	}
	writer, err := injector.NewClient(config)
	if err != nil {
		return err
	}
	if err := p.version(ctx, client); err != nil {
		return err
	}
	snap, unread := p.snapshot(ctx, client)
	if errors.As(unread, new(*cluster.UnknownNodeError)) {
		return badUsage("%w", unread)
	}
	p.Node = cmp.Or(p.Node, "any") // nothing could be read of one, and none is asked about
	if p.run, err = examine.New(p.client, p.Options, p.sink); err != nil {
		return err
	}
	if err := p.run.Begin(); err != nil {
		return err
	}
	ways := p.ways
	if len(ways) == 0 {
		ways = []string{injector.MethodAPI, injector.MethodPod, injector.MethodEphemeral, injector.MethodExec, injector.MethodSSH}
	}
	if rehearsal := p.run.Placement(injector.MethodPod, snap); slices.ContainsFunc(ways, makesPods) {
		_, _ = p.rehearse(ctx, writer, rehearsal) // which settles the namespace as a run does; what else it says comes below
	}
	if err := p.rights(ctx, client, snap, ways); err != nil {
		return err
	}
	if snap == nil {
		p.add("", askCalico, probe.Found(probe.Unknown, "nothing is known of any node: %s", explainError(unread)))
		return p.conclude(nil)
	}
	p.calico(snap)
	var all sync.WaitGroup
	found := make([][]probe.Event, len(ways))
	for i, way := range ways {
		all.Go(func() { found[i] = p.ofWay(ctx, writer, client, snap, way) })
	}
	all.Wait()
	p.found = append(p.found, slices.Concat(found...)...)
	return p.conclude(ways)
}

// makesPods tells whether a use has its rights where probe pods go.
func makesPods(way string) bool {
	return slices.Contains([]string{injector.MethodPod, injector.MethodNeighbour, useShell, useClean}, way)
}

// rehearse takes the way of a pod as a run does, but that nothing is created, and tells
// which namespace was asked last.
func (p *preflight) rehearse(ctx context.Context, writer *injector.Client, o injector.Options) (namespace string, err error) {
	_, err = p.client.InEitherNamespace(func(ctx context.Context, o injector.Options) (*injector.Session, error) {
		namespace = o.Namespace
		return nil, writer.RehearsePod(ctx, o)
	})(ctx, o)
	return namespace, err
}

// snapshot is what the API says of the node that was named, or of the first that is ready.
func (p *preflight) snapshot(ctx context.Context, client *cluster.Client) (*cluster.Snapshot, error) {
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
			p.Node, explainError(snap.CalicoErr)))
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

// rights asks for every right of the ways.
func (p *preflight) rights(ctx context.Context, client *cluster.Client, snap *cluster.Snapshot, ways []string) error {
	calico := cmp.Or(string(p.calicoNamespace), install.CalicoNamespace)
	if snap != nil && snap.Calico != nil {
		calico = snap.Calico.Namespace
	}
	for _, way := range ways {
		uses, err := install.Named(way)
		if err != nil {
			return err
		}
		own := uses[len(uses)-1].Rights // api's are asked for once, as its own
		if way == injector.MethodSSH {
			continue
		}
		namespace := p.client.PodNamespace(snap)
		in := func(namespace string) (probe.Result, error) {
			return held(ctx, client, way, own, func(s install.Scope) string { return s.Where(namespace, calico) })
		}
		r, err := in(namespace)
		if err != nil {
			r = probe.Found(probe.Unknown, "%s", explainError(err))
		}
		if r.Status == probe.Fail && namespace != install.Namespace {
			if there, err := in(install.Namespace); err == nil && there.Status != probe.Fail {
				r.Saw, _, _ = strings.Cut(r.Saw, ": ask for ")
				r.Saw += "; in namespace " + install.Namespace + " you have it: name -n " + install.Namespace
			}
		}
		p.add(way, askRights, r)
	}
	return nil
}

// held tells which of a way's rights are had.
func held(ctx context.Context, client *cluster.Client, way string, rights []install.Right, where func(install.Scope) string) (probe.Result, error) {
	var asks []authorizationv1.ResourceAttributes
	for _, r := range rights {
		for _, group := range r.Groups {
			resource, sub, _ := strings.Cut(r.Resource, "/")
			ask := authorizationv1.ResourceAttributes{Namespace: where(r.In), Verb: r.Verb, Group: group, Resource: resource, Subresource: sub}
			if len(r.Names) > 0 {
				ask.Name = r.Names[0]
			}
			asks = append(asks, ask)
		}
	}
	may, err := client.May(ctx, asks)
	if err != nil {
		return probe.Result{}, err
	}
	var needed, lines, missing []string
	ask := "ask for what 'calico-probe manifests --ways " + way
	inCalico := false
	i := 0
	for _, r := range rights {
		had := slices.Contains(may[i:i+len(r.Groups)], true)
		i += len(r.Groups)
		if had {
			continue
		}
		inCalico = inCalico || r.In == install.Calico
		name := r.String()
		if in := where(r.In); in != "" {
			name += " in namespace " + in
		}
		if r.Without == "" {
			needed = append(needed, name)
			continue
		}
		missing = append(missing, name)
		lines = append(lines, "without the right to "+name+": "+r.Without)
	}
	if at := where(install.Calico); inCalico && at != install.CalicoNamespace {
		ask += " --calico-namespace " + probe.Quote(at)
	}
	ask += "' prints"
	switch {
	case len(needed) > 0:
		return probe.Found(probe.Fail, "no right to %s: %s", strings.Join(needed, ", "), ask).Because(lines...), nil
	case len(missing) > 0:
		return probe.Found(probe.Warn, "it works with less, without the right to %s; %s", strings.Join(missing, ", "), ask).Because(lines...), nil
	}
	return probe.Found(probe.OK, "all %d rights granted", len(rights)), nil
}

// ofWay is what can be told of one way but for its rights.
func (p *preflight) ofWay(ctx context.Context, writer *injector.Client, client *cluster.Client, snap *cluster.Snapshot, way string) []probe.Event {
	var out []probe.Event
	add := func(check string, r probe.Result) { out = append(out, answerOf(way, check, r)) }
	if way == useClean || way == useServe { // of which rights are all that can be told
		return nil
	}
	o := p.run.Placement(way, snap)
	node := snap.Node
	if why := examine.NoProbeOn(node); why != "" && way != injector.MethodAPI && way != injector.MethodNeighbour {
		add(askNode, probe.Found(probe.Fail, "%s: name another with --node", why))
		return out
	}
	switch way {
	case injector.MethodNeighbour:
		near := cluster.Neighbours(snap, 1, nil)
		if len(near) == 0 {
			add(askAdmission, probe.Found(probe.Fail, "no other node is ready to look at %s from", p.Node))
			return out
		}
		node, o.Node = near[0], near[0].Name
		fallthrough
	case injector.MethodPod, useShell:
		var err error
		o.Namespace, err = p.rehearse(ctx, writer, o)
		r := rehearsed(err, "a pod in namespace "+o.Namespace+" is admitted")
		if way == useShell && err == nil {
			root := o
			root.Shell = true
			root.Namespace, err = p.rehearse(ctx, writer, root)
			if r = rehearsed(err, r.Saw+", and the privileged one of 'sh' in namespace "+root.Namespace); err != nil {
				r.Saw = "the pod of 'sh', which is privileged: " + r.Saw
			}
		}
		if r.Status == probe.OK {
			if err := writer.RehearseJob(ctx, o); err != nil {
				r.Status, r.Saw = probe.Warn, r.Saw+", and its clean-up job is not: "+explainError(err)
			}
		}
		add(askAdmission, r)
		add(askImage, imageOn(node, o.Image))
	case injector.MethodEphemeral:
		if snap.Calico == nil {
			add(askAdmission, probe.Found(probe.Fail, "node %s has no calico-node pod to join", p.Node))
			if snap.CalicoErr != nil {
				out[0].Result.Status, out[0].Result.Saw = probe.Unknown, "whether there is a calico-node pod to join is not known"
			}
			return out
		}
		add(askAdmission, rehearsed(writer.RehearseEphemeral(ctx, o), "an ephemeral container in pod "+snap.Calico.Namespace+"/"+snap.Calico.Name+" is admitted"))
		add(askImage, imageOn(node, o.Image))
	case injector.MethodExec:
		add(askCarried, carries(o.Carried, o.Arch))
		running, err := client.Running(ctx, snap.Node.Name)
		doors := injector.Doors(running, snap.Calico)
		switch {
		case err != nil:
			add(askDoor, probe.Found(probe.Unknown, "which containers run on node %s is not known: %s", p.Node, explainError(err)))
		case len(doors) == 0:
			add(askDoor, probe.Found(probe.Fail, "%s", injector.NoDoor(p.Node, snap.Calico)))
		default:
			var asks []authorizationv1.ResourceAttributes
			for _, d := range doors {
				asks = append(asks, authorizationv1.ResourceAttributes{Namespace: namespaceOf(d), Verb: "create", Resource: "pods", Subresource: "exec"})
			}
			may, err := client.May(ctx, asks)
			if err != nil {
				add(askDoor, probe.Found(probe.Unknown, "%s", explainError(err)))
				return out
			}
			add(askDoor, enterable(doors, may))
		}
	case injector.MethodSSH:
		add(askCarried, carries(o.Carried, o.Arch))
		add(askSSH, reachable(ctx, o))
	}
	return out
}

func namespaceOf(door string) string {
	namespace, _, _ := strings.Cut(door, "/")
	return namespace
}

// enterable says which of the containers, as NAMESPACE/POD/CONTAINER, the way exec would go
// into: the first that one may. They are in other namespaces than calico-node's too, where
// that does not run.
func enterable(doors []string, may []bool) probe.Result {
	if i := slices.Index(may, true); i >= 0 {
		return probe.Found(probe.Unknown, "container %s is there to go into; whether it has a shell is not known: a run shows it", doors[i])
	}
	var lack []string
	for _, d := range doors {
		if namespace := namespaceOf(d); !slices.Contains(lack, namespace) {
			lack = append(lack, namespace)
		}
	}
	return probe.Found(probe.Fail, "no right to create pods/exec in namespace %s: ask for what 'calico-probe manifests --ways exec --calico-namespace %s' prints", strings.Join(lack, " or "), probe.Quote(lack[0]))
}

// rehearsed is what the API server said to a dry run.
func rehearsed(err error, good string) probe.Result {
	pe, refused := errors.AsType[*injector.PlacementError](err)
	switch {
	case err == nil:
		return probe.Found(probe.OK, "%s", good)
	case refused && pe.Reason == facts.ReasonAPI, refused && pe.Reason == facts.ReasonSupport, !refused: // a webhook that takes no dry run, perhaps
		return probe.Found(probe.Unknown, "the API server does not say: %s", explainError(err))
	}
	r := probe.Found(probe.Fail, "%s", explainError(err)).With(probe.FactReason, string(pe.Reason))
	if pe.Reason == facts.ReasonNamespace {
		if gone, ok := errors.AsType[*apierrors.StatusError](pe.Err); ok && apierrors.IsNotFound(gone) && gone.ErrStatus.Details != nil {
			r.Saw = fmt.Sprintf("there is no namespace %q", gone.ErrStatus.Details.Name)
		}
		r.Saw += "; 'calico-probe manifests' prints one that admits probes"
	}
	return r
}

// listed is how many images a kubelet reports unless it is told otherwise
// (nodeStatusMaxImages).
const listed = 50

func imageOn(node *corev1.Node, image string) probe.Result {
	if slices.ContainsFunc(node.Status.Images, func(i corev1.ContainerImage) bool { return slices.Contains(i.Names, asListed(image)) }) {
		return probe.Found(probe.OK, "%s is on node %s", image, node.Name)
	}
	if n := len(node.Status.Images); n >= listed {
		return probe.Found(probe.Unknown, "%s is not among the %d images that the kubelet of %s lists, which need not be all; a run shows whether it can be had", image, n, node.Name)
	}
	return probe.Found(probe.Unknown, "%s is not on node %s yet: a run shows whether the node can pull it", image, node.Name)
}

func carries(packed []byte, arch string) probe.Result {
	if len(packed) == 0 {
		return probe.Found(probe.Fail, "this client carries no probe for %s: take one that was released, or build it with 'make build'", arch)
	}
	return probe.Found(probe.OK, "this client carries a probe for %s (%d KB)", arch, len(packed)>>10)
}

// reachable tells what ssh would do, without connecting to anything.
func reachable(ctx context.Context, o injector.Options) probe.Result {
	if _, err := exec.LookPath("ssh"); err != nil {
		return probe.Found(probe.Fail, "there is no program ssh here: install OpenSSH's client")
	}
	if err := injector.HostKeyKnown(ctx, o); err != nil {
		return probe.Found(probe.Fail, "%s", oneLine(err.Error()))
	}
	return probe.Found(probe.Info, "the host key of %s is known; whether you are let in was not tried", o.Destination)
}

// conclude shows what was found and gives the verdict. Where the user named no way, one
// that would work is enough, and what the others lack is no more than a warning.
func (p *preflight) conclude(ways []string) error {
	worst := map[string]probe.Status{}
	for _, ev := range p.found {
		if at, s := ev.Way, ev.Result.Status; s == probe.Fail || s == probe.Unknown && worst[at] != probe.Fail {
			worst[at] = s
		}
	}
	if len(p.ways) == 0 {
		onto := slices.DeleteFunc(slices.Clone(ways), func(w string) bool { return w == injector.MethodAPI || w == injector.MethodSSH }) // a login was not tried
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
			if ev.Way != "" && ev.Way != injector.MethodAPI && best != probe.Fail && (r.Status == probe.Fail || r.Status == probe.Unknown && best == probe.OK) {
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
		return exit(v.Exit)
	}
	return nil
}
