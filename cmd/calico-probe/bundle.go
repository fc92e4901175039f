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
	"github.com/calico-probe/calico-probe/internal/bundle"
	"github.com/calico-probe/calico-probe/internal/cluster"
	"github.com/calico-probe/calico-probe/internal/examine"
	"github.com/calico-probe/calico-probe/internal/fleet"
	"github.com/calico-probe/calico-probe/internal/report"
	"github.com/calico-probe/calico-probe/internal/ui"
	"github.com/calico-probe/calico-probe/probe"
)

const bundleExample = `  # what would be in it, and what is left out of each object? nothing is created, nothing is written
  calico-probe bundle --node worker-3 --dry-run

  # one node with its baseline nodes, for support
  calico-probe bundle --node worker-3 --file worker-3.tar.gz

  # runs that were saved at night, with the objects as they are now
  calico-probe bundle night.ndjson

  # without a cluster: the runs and their reports alone
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
		Use: "bundle [FILE...]", Short: "Put a run, its report and the API objects behind it into one archive for support", Example: bundleExample,
		Long: `Runs what 'run' runs, or takes runs that were saved, and writes one archive: the runs as
'analyze' reads them, their reports, and the API objects that causes rest on, where
troubleshoot.sh's support bundles have theirs. No Secret is read; of each object only
listed fields are kept, and redactions.txt in the archive names what was left out.
Names, labels and addresses stay. What may not be read is listed as not collected.

The file is for you alone (mode 0600), is never written over another, and is there whole
or not at all. Exits 0 once it is written, whatever the run came to.`,
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
	f.StringVarP(&o.file, "file", "f", "", "the archive to write (default calico-probe-bundle-RUN.tar.gz here)")
	f.BoolVar(&o.dryRun, "dry-run", false, "write nothing: list files, objects and what is left out of each; nodes are asked by the API alone")
	f.BoolVar(&o.offline, "offline", false, "ask no cluster: only the saved runs that are named")
	o.others(cmd)
	o.asking(cmd)
	a.connecting(cmd)
	o.completions(cmd)
	return cmd
}

// check refuses flags that cannot be right, before anything is asked.
func (o *bundleOptions) check(cmd *cobra.Command, files []string) error {
	asked := len(o.several.named) > 0 || o.several.asked()
	switch {
	case len(files) > 0 && asked:
		return ui.BadUsage("saved runs say themselves which nodes they are of: leave out --node, -l and --all-nodes, or the files")
	case o.offline && len(files) == 0:
		return ui.BadUsage("--offline takes the files of saved runs")
	case len(files) == 0 && !asked:
		return ui.BadUsage("no node is named: use --node NODE ('kubectl get nodes' lists them), or name the files of saved runs")
	case o.file == "-":
		return ui.BadUsage("--file names a file: an archive is not written to stdout")
	}
	if err := o.noContradiction(cmd); err != nil {
		return err
	}
	if len(o.several.named) == 1 && !o.several.asked() {
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

// write makes the bundle and its file.
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

// gather is everything that goes into the bundle.
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
				return given, ui.BadUsage("%s is the transcript of a session in which no check was asked", source(name))
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
		given.Gaps = append(given.Gaps, "the API was not asked for objects")
		return given, nil
	}
	return given, o.objects(ctx, &given)
}

// ask is a new run, as it would be saved. One that its limit has cut is one too.
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
	id, err := o.anew(limited, client, sink)
	over, late := errors.AsType[examine.TimeoutError](context.Cause(limited))
	switch {
	case err == nil, errors.As(err, new(ui.Exit)):
	case late && ctx.Err() == nil && text.Len() > 0:
		client.Note("%v: the bundle has what was answered until then", over)
	default:
		return report.Saved{}, "", err
	}
	saved, err := report.Load(&text)
	if err != nil {
		return saved, "", fmt.Errorf("the run %w", err)
	}
	return saved, id, nil
}

// anew is a new run of one node or of several, and its ID.
func (o *bundleOptions) anew(ctx context.Context, client *examine.Client, sink report.Sink) (string, error) {
	if !o.several.asked() {
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

// objects adds what the API has of the nodes of the runs.
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
		return ui.BadUsage("a saved run is of the cluster %s, and this is %s: name it with --context, or leave its objects out with --offline",
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
		given.Gaps = append(given.Gaps, "version: "+cluster.Explain(err))
		return nil
	}
	given.Version = &version
	return nil
}
