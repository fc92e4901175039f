// Package preflight reports which access methods to a node would work, before anything is created on the node. It
// reports which rights are granted, what a dry run shows about admission and quota, and whether the node has the image.
//
//	p, err := preflight.New(client, opts, []string{"pod"}) // a usage error, before any request
//	c, err := p.Do(ctx, sink)                              // a ui.Exit once the verdict is reported
//
// It does not create anything, and does not run checks on the node. It logs in over ssh and out again only if the user
// requests ssh.
package preflight

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strconv"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/calico-probe/calico-probe/injector"
	"github.com/calico-probe/calico-probe/internal/cluster"
	"github.com/calico-probe/calico-probe/internal/examine"
	"github.com/calico-probe/calico-probe/internal/install"
	"github.com/calico-probe/calico-probe/internal/report"
	suiteapi "github.com/calico-probe/calico-probe/internal/subject/suite/api"
	"github.com/calico-probe/calico-probe/internal/suggest"
	"github.com/calico-probe/calico-probe/internal/ui"
	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/probe/facts"
)

// Preflight tests whether the access methods to one node would work.
type Preflight struct {
	client *examine.Client
	opts   examine.Options
	named  []string // named by the user; nil = the methods that auto includes: one working method is enough

	reader *cluster.Client
	writer *injector.Client
	snap   *cluster.Snapshot // nil if no node could be read
	run    *examine.Run      // does not run checks: it has the options for what would be created, and reports results
	found  []probe.Event
	whose  string // the flag for 'manifests' that names the user; "" = unknown user

	// Show, if set, shows the user which tests are pending. The display is closed before the report.
	Show  func(pending []string) *ui.Watch
	shown *ui.Watch // nil = nothing is shown
}

// New returns the Preflight for the node in opts; "" = the first ready node. methods are names from install.Names. If
// there are none, or only auto, one working access method is enough.
func New(client *examine.Client, opts examine.Options, methods []string) (*Preflight, error) {
	if slices.Equal(methods, []string{examine.ViaAuto}) {
		methods = nil
	}
	for i, method := range methods {
		switch known := install.Names(); {
		case !slices.Contains(known, method):
			return nil, ui.BadUsage("unknown access method %q%s; --via takes auto, or a list of %s",
				method, suggest.DidYouMean(method, known), strings.Join(known, ", "))
		case slices.Contains(methods[:i], method):
			return nil, ui.BadUsage("--via names %s twice: name each access method once", method)
		}
	}
	opts.Via = examine.ViaAuto
	return &Preflight{client: client, opts: opts, named: methods}, opts.Validate()
}

// Do runs all tests and reports them to a sink. The report is written from the returned Collector, which is valid even
// if no node could be read.
func (p *Preflight) Do(ctx context.Context, sink report.Sink) (*examine.Collector, error) {
	err := p.do(ctx, sink)
	if p.run == nil {
		return examine.NewCollector(p.opts.Node, sink), err
	}
	return p.run.Collector, err
}

func (p *Preflight) do(ctx context.Context, sink report.Sink) error {
	methods := p.named
	if len(methods) == 0 {
		methods = append([]string{injector.MethodAPI}, injector.FallbackNames()...) // as 'run' tries them
	}
	if p.Show != nil {
		p.shown = p.Show(nil)
		defer p.shown.Close()
	}
	p.client.Progress("reading the node from the API")
	var err error
	if p.reader, err = p.client.Reader(); err != nil {
		return err
	}
	if p.writer, err = p.client.Writer(); err != nil {
		return err
	}
	if err := p.version(ctx); err != nil {
		if apierrors.IsForbidden(err) {
			return errors.New(why(err))
		}
		return err
	}
	unread := examine.NoSuchNode(p.read(ctx))
	if errors.As(unread, new(ui.UsageError)) {
		return unread
	}
	p.opts.Node = cmp.Or(p.opts.Node, "none") // no node could be read, so the report is about the cluster
	if p.run, err = examine.New(p.client, p.opts, sink); err != nil {
		return err
	}
	if err := p.run.Begin(); err != nil {
		return err
	}
	p.client.Progress("checking your rights")
	if rehearsal := p.run.Placement(injector.MethodPod, p.snap); slices.ContainsFunc(methods, makesPods) {
		_, _ = p.rehearse(ctx, rehearsal) // this selects the namespace as a run does; the error is reported below
	}
	p.whose = probe.UserFlag(p.reader.Whoami(ctx))
	if err := p.rights(ctx, methods); err != nil {
		return err
	}
	if p.snap == nil {
		p.add("", askCalico, p.noNode(unread))
		return p.conclude(nil)
	}
	p.calico()
	p.methods(ctx, methods)
	return p.conclude(methods)
}

// methods tests all access methods in parallel.
func (p *Preflight) methods(ctx context.Context, methods []string) {
	var all probe.Workers
	found := make([][]probe.Event, len(methods))
	var pending []string
	for _, method := range methods {
		pending = append(pending, p.awaited(method))
	}
	p.shown.Expect(pending)
	for i, method := range methods {
		all.Go(func() {
			found[i] = p.ofMethod(ctx, method)
			p.shown.Done(p.awaited(method), "")
		})
	}
	all.Wait()
	p.found = append(p.found, slices.Concat(found...)...)
}

// read reads the API's data about the named node or, without a name, about the first ready node.
func (p *Preflight) read(ctx context.Context) error {
	if err := p.client.Resolve(ctx, &p.opts); err != nil {
		return err
	}
	if p.opts.Node == "" {
		standings, _, err := suiteapi.Standings(ctx, p.reader)
		if err != nil {
			return err
		}
		if len(standings) == 0 {
			return errors.New("the cluster has no nodes")
		}
		best := standings[0] // the nodes are sorted, the healthiest first
		p.opts.Node = best.Node
		if best.Status == probe.OK {
			p.client.Note("no --node: checking %s, the first ready node", best.Node)
		} else {
			p.client.Note("no --node: checking %s, because no node is healthy: %s", best.Node, best.Saw)
		}
	}
	var err error
	p.snap, err = p.reader.Read(ctx, p.opts.Node)
	return err
}

// oldest is the first minor version of Kubernetes 1 in which all features that the program uses are stable. Ephemeral
// containers became stable last, in 1.25.
const oldest = 25

func (p *Preflight) version(ctx context.Context) error {
	v, err := p.reader.Version(ctx)
	if err != nil {
		return err
	}
	r := probe.Found(probe.OK, "the API server is %s", v.GitVersion)
	if n, err := strconv.Atoi(strings.TrimRight(v.Minor, "+")); err == nil && v.Major == "1" && n < oldest {
		r = probe.Found(probe.Warn, "the API server is %s: before 1.%d access method ephemeral does not work everywhere", v.GitVersion, oldest)
	}
	p.add("", askVersion, r)
	return nil
}

// calico reports problems of the node's calico-node pod, and pods that pose as it.
func (p *Preflight) calico() {
	switch {
	case p.snap.Calico.Err != nil:
		p.add("", askCalico, probe.Found(probe.Unknown, "calico-node's pod on node %s unknown: %s",
			p.opts.Node, why(p.snap.Calico.Err)))
	case p.snap.Calico.Value == nil:
		in := strings.Join(cluster.Namespaces(p.client.CalicoNamespace), " or ")
		p.add("", askCalico, probe.Found(probe.Warn, "node %s has no calico-node pod (label %s, namespace %s)",
			p.opts.Node, cluster.CalicoPods, in))
	}
	for _, r := range p.snap.Ignored() {
		r.Saw = strings.TrimSpace(r.Target + " " + r.Saw)
		p.add("", askCalico, r)
	}
}

// conclude reports the results and returns the verdict. If the user did not name an access method, one working method
// is enough. If other methods lack something, this is then only a warning.
func (p *Preflight) conclude(methods []string) error {
	p.shown.Close() // the report replaces it
	if len(p.named) == 0 {
		p.oneIsEnough(methods)
	}
	for _, ev := range p.found {
		if err := p.run.Add(ev.Method, ev); err != nil {
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
	if err := p.run.Sink.Event(probe.Event{Type: probe.EventVerdict, Verdict: &v, Node: p.opts.Node}); err != nil {
		return err
	}
	if v.Exit != report.ExitHealthy {
		return ui.Exit(v.Exit)
	}
	return nil
}

// oneIsEnough turns failures of access methods into warnings if another method would work or may work.
func (p *Preflight) oneIsEnough(methods []string) {
	worst := map[string]probe.Status{}
	for _, ev := range p.found {
		if at, s := ev.Method, ev.Result.Status; s == probe.Fail || s == probe.Unknown && worst[at] != probe.Fail {
			worst[at] = s
		}
	}
	best := probe.Fail
	for _, method := range methods {
		switch {
		case method == injector.MethodAPI, method == injector.MethodSSH && !p.asksSSH(): // it does not try to log in
		case worst[method] == "":
			best = probe.OK
		case worst[method] == probe.Unknown && best == probe.Fail:
			best = probe.Unknown
		}
	}
	for _, ev := range p.found {
		r := ev.Result
		if p.client.Namespace != "" && r.Facts.Str(probe.FactReason) == string(facts.ReasonNamespace) {
			continue // without this right every run fails, even if other methods work
		}
		if ev.Method != "" && ev.Method != injector.MethodAPI && best != probe.Fail &&
			(r.Status == probe.Fail || r.Status == probe.Unknown && best == probe.OK) {
			r.Status = probe.Warn
		}
	}
}
