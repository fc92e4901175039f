package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/calico-probe/calico-probe/injector"
	"github.com/calico-probe/calico-probe/internal/agents"
	"github.com/calico-probe/calico-probe/internal/apierror"
	"github.com/calico-probe/calico-probe/internal/examine"
	"github.com/calico-probe/calico-probe/internal/fleet"
	"github.com/calico-probe/calico-probe/internal/mesh"
	"github.com/calico-probe/calico-probe/internal/report"
	"github.com/calico-probe/calico-probe/internal/runbook"
	"github.com/calico-probe/calico-probe/internal/ui"
	"github.com/calico-probe/calico-probe/probe"
)

// agent is the user name that the journal records when an agent runs a runbook.
const agent = "calico-probe mcp"

// world returns the abilities of an agent's tools, as configured by the flags.
func (o *mcpOptions) world() (agents.World, error) {
	schemas, err := mcpSchemas()
	if err != nil {
		return agents.World{}, err
	}
	w := agents.World{Probes: o.probes, Explain: explained, Schemas: schemas}
	if w.Runbooks, err = readable(o.dirs); err != nil || o.offline {
		return w, err
	}
	client, err := o.app.client()
	if err != nil {
		return w, err
	}
	o.client = client.Quiet()
	alone := o.agreement(nil) // stdin belongs to the agent
	o.client.Consent = func(ctx context.Context, nodes int) error {
		if agents.Agreed(ctx) {
			return nil
		}
		return alone(ctx, nodes)
	}
	w.Triage, w.Run, w.Mesh, w.Follow, w.Scope = o.triage, o.runNode, o.meshOf, o.follow, o.scope
	return w, nil
}

// scope returns the number of nodes that a tool would cover, and the cluster.
func (o *mcpOptions) scope(ctx context.Context, nodes []string, selector string) (string, error) {
	n := len(nodes)
	if n == 0 {
		reader, err := o.client.Reader()
		if err != nil {
			return "", err
		}
		names, err := reader.Named(ctx, selector)
		if err != nil {
			return "", sentence(err)
		}
		n = len(names)
	}
	at, err := o.client.Cluster()
	if err != nil {
		return "", err
	}
	return fmt.Sprintf("%d nodes of %s", n, at), nil
}

// sentence returns an error as the program would print it.
func sentence(err error) error {
	if err == nil || errors.As(err, new(ui.Exit)) {
		return nil
	}
	return errors.New(apierror.Explain(err))
}

// concluded removes the exit code from a run's error, because the report has the exit code.
func concluded(err error) error {
	if errors.As(err, new(ui.Exit)) {
		return nil
	}
	return err
}

// over returns a run over the nodes in a tool call, by an access method.
func (o *mcpOptions) over(via string, nodes []string, selector string) (*fleet.Run, examine.Options, error) {
	opts := o.Options
	opts.Via = via
	all := len(nodes) == 0 && selector == ""
	run, err := fleet.New(o.client, fleet.Options{Options: opts, Nodes: nodes, Select: selector, All: all})
	return run, opts, err
}

func (o *mcpOptions) triage(ctx context.Context, nodes []string, selector string) (report.Fleet, error) {
	var out report.Fleet
	run, opts, err := o.over(injector.MethodAPI, nodes, selector)
	if err != nil {
		return out, err
	}
	run.Sink = report.CollectFleet(&out)
	ctx, cancel := opts.Deadline(ctx)
	defer cancel()
	return out, sentence(run.Do(ctx))
}

func (o *mcpOptions) runNode(ctx context.Context, node string, how agents.How) (report.Run, report.Document, error) {
	opts := o.Options
	opts.Node, opts.Profile = node, cmp.Or(how.Profile, opts.Profile)
	if len(how.Checks) > 0 {
		opts.Checks = how.Checks
	}
	if how.Via != "" {
		if !o.allows(how.Via) {
			return report.Run{}, report.Document{}, fmt.Errorf("calico-probe mcp was started with --via %s, which does not include %q", opts.Via, how.Via)
		}
		opts.Via = how.Via
	}
	var docs []report.Document
	run, err := examine.Record(ctx, o.client, opts, report.Collect(&docs))
	if err == nil && len(docs) == 0 {
		err = errors.New("the run did not reach a verdict")
	}
	if err != nil {
		return run, report.Document{}, sentence(err)
	}
	return run, docs[0], nil
}

// allows reports whether an agent may choose access methods. It may choose the methods in the flag, and api, which
// creates nothing. auto excludes local and kubelet, which are for people.
func (o *mcpOptions) allows(via string) bool {
	switch access := injector.AccessOf(via); {
	case access.AsRoot:
		return false
	case via == o.Via, !access.Creates() && !access.Here():
		return true
	}
	own := strings.Split(o.Via, ",")
	if o.Via == examine.ViaAuto {
		own = append(injector.FallbackNames(), injector.MethodOutside)
	}
	for method := range strings.SplitSeq(via, ",") {
		if !slices.Contains(own, method) {
			return false
		}
	}
	return true
}

// heldBack removes an access method from a runbook's step if the user who started the server did not allow it.
func (o *mcpOptions) heldBack(r runbook.Run) runbook.Run {
	if !o.allows(cmp.Or(r.Via, o.Via)) {
		r.Via = ""
	}
	return r
}

func (o *mcpOptions) meshOf(ctx context.Context, nodes []string, selector string) (*mesh.Report, error) {
	opts := o.Options
	opts.Checks, opts.Skip, opts.Profile = nil, nil, string(probe.Standard) // a mesh uses its own checks
	run, err := fleet.NewMesh(o.client, fleet.MeshOptions{RackLabels: fleet.RackLabels(),
		Options: fleet.Options{Options: opts, Nodes: nodes, Select: selector}})
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, meshLimit)
	defer cancel()
	found, err := run.Mesh(ctx)
	if found != nil {
		return found, nil
	}
	return nil, sentence(err)
}

// follow runs a runbook for an agent. The runbook does not ask questions, start commands or change anything.
func (o *mcpOptions) follow(ctx context.Context, name, node string) (*runbook.Record, error) {
	if isFile(name) { // an agent may choose a listed runbook, not a file on this machine
		return nil, ui.BadUsage("unknown runbook %q", name)
	}
	it, err := findRunbook(name, o.dirs)
	if err != nil {
		return nil, err
	}
	if err := unattended(it.Runbook.Spec.Steps); err != nil {
		return nil, err
	}
	params, _, err := it.Runbook.Given(nil, nil, nil)
	if err != nil {
		return nil, err
	}
	at, err := o.client.ClusterOf(o.Options)
	if err != nil {
		return nil, err
	}
	by := &runbookOptions{runFlags: &runFlags{app: o.app, Options: o.Options}, client: o.client, runTimeout: o.Timeout}
	j := runbook.NewJournal(runbook.Header{Runbook: it.Runbook.Metadata.Name, Digest: it.Runbook.Digest(), File: it.File,
		Source: it.Runbook.Source(), Node: node, Cluster: at, Params: params, By: agent, At: time.Now().UTC()})
	e := &runbook.Engine{Runbook: it.Runbook, Journal: j, World: runbook.World{
		Run: func(ctx context.Context, node string, r runbook.Run) (report.Run, error) {
			return by.runOn(ctx, node, o.heldBack(r))
		},
		Agree: func(ctx context.Context, r runbook.Run, nodes []string) error {
			return by.agree(ctx, o.heldBack(r), nodes)
		},
		Fleet: func(ctx context.Context, f runbook.Fleet) (report.Fleet, error) {
			if !o.allows(cmp.Or(f.Via, injector.MethodAPI)) {
				f.Via = ""
			}
			return by.lookAt(ctx, f)
		},
		Nodes:    by.nodes,
		Ask:      func(context.Context, runbook.Question) (string, error) { return "", runbook.ErrNoPerson },
		Confirm:  func(context.Context, runbook.Proposal) (bool, error) { return false, runbook.ErrNoPerson },
		Show:     func(runbook.Entry) error { return nil },
		Progress: func(string) {}, Waits: func(string) {}, Say: func(string) {}, Who: agent, Unattended: true,
	}}
	return e.Do(ctx)
}
