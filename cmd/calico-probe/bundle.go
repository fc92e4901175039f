package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"github.com/calico-probe/calico-probe/injector"
	"github.com/calico-probe/calico-probe/internal/apierror"
	"github.com/calico-probe/calico-probe/internal/bundle"
	"github.com/calico-probe/calico-probe/internal/cluster"
	"github.com/calico-probe/calico-probe/internal/examine"
	"github.com/calico-probe/calico-probe/internal/fleet"
	"github.com/calico-probe/calico-probe/internal/report"
	"github.com/calico-probe/calico-probe/internal/ui"
	"github.com/calico-probe/calico-probe/probe"
)

const bundleExample = `  # list the contents and the redactions, without creating or writing anything
  calico-probe bundle --node worker-3 --dry-run

  # bundle one node and its baseline nodes, for support
  calico-probe bundle --node worker-3 --file worker-3.tar.gz

  # bundle a run saved at night, with the current API objects
  calico-probe bundle night.ndjson

  # bundle only the saved run and its report, without a cluster
  calico-probe bundle --offline night.ndjson`

// bundleOptions are the flags of the verb.
type bundleOptions struct {
	*runFlags
	several severalNodes
	file    string
	dryRun  bool
	offline bool
}

func (a *app) bundle() *cobra.Command {
	o := &bundleOptions{runFlags: &runFlags{app: a, Options: examine.Options{FailOn: examine.FailOnFail}}}
	cmd := &cobra.Command{
		Use: "bundle [FILE...]", Short: "Write a run, its report and the related API objects to an archive for support", Example: bundleExample,
		Long: `Runs the same checks as 'run', or reads saved runs, and writes one archive. The archive has the
runs for 'analyze', their reports, and the API objects behind the causes. It uses the paths of
troubleshoot.sh support bundles. It never reads Secrets, and keeps only allowed fields of each
object, including names, labels and addresses. redactions.txt in the archive lists the removed
values. Objects that you are not allowed to read are listed as not collected.

The archive has mode 0600. It is written atomically and never replaces an existing file.
The exit code is 0 once the archive is written, regardless of the verdict.`,
		RunE: func(cmd *cobra.Command, files []string) error {
			if err := o.check(cmd, files); err != nil {
				return err
			}
			return o.write(cmd.Context(), files)
		},
	}
	f := cmd.Flags()
	o.several.choosing(f)
	o.several.everywhere(f)
	f.StringVarP(&o.file, "file", "f", "", "the archive to write (default: calico-probe-bundle-RUN.tar.gz in the current folder)")
	f.BoolVar(&o.dryRun, "dry-run", false, "list the files, the objects and their redactions, without placing a probe or writing anything")
	f.BoolVar(&o.offline, "offline", false, "do not contact a cluster: use only the given saved runs")
	o.others(cmd)
	o.asking(cmd)
	a.connecting(cmd)
	o.completions(cmd)
	return cmd
}

// check rejects invalid flags before the first request.
func (o *bundleOptions) check(cmd *cobra.Command, files []string) error {
	collects := len(o.several.named) > 0 || o.several.isFleet()
	switch {
	case len(files) > 0 && collects:
		return ui.BadUsage("saved runs already name their nodes: leave out the files, or leave out --node, -l and --all-nodes")
	case o.offline && len(files) == 0:
		return ui.BadUsage("--offline takes saved run files")
	case len(files) == 0 && !collects:
		return ui.BadUsage("no node given: use --node NODE ('kubectl get nodes' lists nodes), or name saved run files")
	case o.file == "-":
		return ui.BadUsage("--file takes a file name: the archive is never written to stdout")
	}
	if err := o.noContradiction(cmd); err != nil {
		return err
	}
	if len(o.several.named) == 1 && !o.several.isFleet() {
		o.Node = o.several.named[0]
	}
	if o.dryRun && !injector.AccessOf(o.Via).Here() {
		o.Via = injector.MethodAPI
	}
	if o.file != "" {
		if err := bundle.Free(o.file); err != nil {
			return err
		}
	}
	return o.Validate()
}

// write creates the bundle and writes it to its file.
func (o *bundleOptions) write(ctx context.Context, files []string) error {
	var to *bundle.Target
	if !o.dryRun {
		var err error
		if to, err = bundle.Reserve(filepath.Dir(o.file)); err != nil {
			return err
		}
		defer to.Drop()
		defer o.interrupts.AtEnd(to.Drop)()
	}
	given, err := o.gather(ctx, files)
	if err != nil {
		return err
	}
	b, err := bundle.Make(given)
	switch {
	case err != nil:
		return err
	case ctx.Err() != nil:
		return ctx.Err()
	case o.dryRun:
		return b.List(o.Out)
	}
	if o.file == "" {
		o.file = b.Name + ".tar.gz"
	}
	if err := to.Keep(b, o.file); err != nil {
		return err
	}
	fmt.Fprintf(o.Out, "%s: %d files\n", o.file, len(b.Files))
	return b.About(o.Out)
}

// gather collects the contents of the bundle.
func (o *bundleOptions) gather(ctx context.Context, files []string) (bundle.Given, error) {
	given := bundle.Given{ID: injector.NewRunID(), At: time.Now(),
		Own: append(cluster.Namespaces(string(o.calicoNamespace)), cluster.Namespaces("")...)}
	if len(files) > 0 {
		for _, name := range files {
			saved, err := o.load(name)
			switch {
			case err != nil:
				return given, err
			case len(saved.Runs) == 0:
				return given, ui.BadUsage("%s is the transcript of a session that did not run any checks", source(name))
			}
			given.Runs = append(given.Runs, saved)
		}
	} else {
		saved, id, err := o.ask(ctx)
		if err != nil {
			return given, err
		}
		given.ID, given.Runs = id, []report.Saved{saved}
	}
	if o.offline || injector.AccessOf(o.Via).Here() {
		given.Gaps = append(given.Gaps, "objects were not requested from the API")
		return given, nil
	}
	return given, o.objects(ctx, &given)
}

// ask does a new run and returns it in the saved format. It accepts a run that timed out.
func (o *bundleOptions) ask(ctx context.Context) (report.Saved, string, error) {
	client, err := o.client()
	if err != nil {
		return report.Saved{}, "", err
	}
	var text bytes.Buffer
	sink, err := report.New("ndjson", &text, false)
	if err != nil {
		return report.Saved{}, "", err
	}
	limited, cancel := o.Deadline(ctx)
	defer cancel()
	id, err := o.runNodes(limited, client, sink)
	over, late := errors.AsType[examine.TimeoutError](context.Cause(limited))
	switch {
	case err == nil, errors.As(err, new(ui.Exit)):
	case late && ctx.Err() == nil && text.Len() > 0:
		client.Note("%v: the bundle contains only the answers received so far", over)
	default:
		return report.Saved{}, "", err
	}
	saved, err := report.Load(&text)
	if err != nil {
		return saved, "", fmt.Errorf("the run %w", err)
	}
	return saved, id, nil
}

// runNodes starts a new run over one or more nodes, and returns the run ID.
func (o *bundleOptions) runNodes(ctx context.Context, client *examine.Client, sink report.Sink) (string, error) {
	if !o.several.isFleet() {
		if err := client.Resolve(ctx, &o.Options); err != nil {
			return "", err
		}
		if err := o.ThisNode(); err != nil {
			return "", err
		}
		run, err := examine.New(client, o.Options, sink)
		if err != nil {
			return "", err
		}
		return run.ID, run.Do(ctx)
	}
	run, err := fleet.New(client, fleet.Options{Options: o.Options, Nodes: o.several.named, Select: o.several.selector,
		All: o.several.all})
	if err != nil {
		return "", err
	}
	run.Sink = sink
	return run.ID, run.Do(ctx)
}

// objects adds the API objects of all nodes in the runs.
func (o *bundleOptions) objects(ctx context.Context, given *bundle.Given) error {
	client, err := o.client()
	if err != nil {
		return err
	}
	at, err := client.Cluster()
	if err != nil {
		return err
	}
	if other := bundle.Elsewhere(given.Runs, at.Server); other != "" {
		return ui.BadUsage("a saved run is from cluster %s, but this is %s: choose that cluster with --context, or omit API objects with --offline",
			probe.Line(other), at.Server)
	}
	reader, err := client.Reader()
	if err != nil {
		return err
	}
	nodes, gaps := bundle.Nodes(given.Runs)
	given.Gaps = append(given.Gaps, gaps...)
	client.Progress("reading the API objects of %d nodes", len(nodes))
	given.Objects = reader.ObjectsOf(ctx, nodes)
	version, err := reader.Version(ctx)
	if err != nil {
		given.Gaps = append(given.Gaps, "version: "+apierror.Explain(err))
		return nil
	}
	given.Version = &version
	return nil
}
