package main

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"time"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/duration"

	"github.com/calico-probe/calico-probe/injector"
	"github.com/calico-probe/calico-probe/internal/cluster"
	"github.com/calico-probe/calico-probe/internal/report"
	"github.com/calico-probe/calico-probe/internal/ui"
	"github.com/calico-probe/calico-probe/probe"
)

// cleanLimit bounds the requests to the API before and after the prompt.
const cleanLimit = time.Minute

// cleanOptions are the flags of clean.
type cleanOptions struct {
	*app
	run      string
	all, yes bool
}

func (a *app) clean() *cobra.Command {
	o := &cleanOptions{app: a}
	cmd := &cobra.Command{
		Use: "clean", Short: "Remove objects that killed clients left in the cluster", Args: noArguments,
		Long: `Lists every probe pod and clean-up job in the cluster, with its run and its stated owner. It
removes objects that have ended, or have expired by the API server's clock. It keeps objects
that may be in use. --run removes the objects of one run. --all removes all objects, but asks
first. 'clean' removes an object only if its labels and its name are those of calico-probe.

The probes of a killed client also stop automatically: a pod within a minute, and the process of
an ephemeral container within 30 seconds. If an ephemeral container runs longer, 'clean' lists
it and exits 1. To stop that container, replace its calico-node pod.`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := o.complete(); err != nil {
				return err
			}
			return o.clean(cmd.Context())
		},
	}
	f := cmd.Flags()
	f.StringVar(&o.run, "run", "", "remove only the objects of the run with this ID, even if they may be in use")
	f.BoolVar(&o.all, "all", false, "also remove objects that another run may be using; lists them and asks first")
	f.BoolVar(&o.yes, "yes", false, "with --all: do not ask for confirmation")
	a.connecting(cmd)
	completions(cmd, map[string]completer{"run": o.runs})
	return cmd
}

// runID matches the IDs of injector.NewRunID.
var runID = regexp.MustCompile("^[0-9a-f]{8}$")

// complete rejects conflicting flags before the first request.
func (o *cleanOptions) complete() error {
	if err := o.inNamespace(); err != nil {
		return err
	}
	switch {
	case o.run != "" && o.all:
		return ui.BadUsage("--run and --all exclude each other: leave out one of them")
	case o.run != "" && !runID.MatchString(o.run):
		return ui.BadUsage("--run %q: invalid run ID (eight lower-case hex digits): 'calico-probe clean' lists run IDs", o.run)
	case o.yes && !o.all:
		return ui.BadUsage("--yes only applies to --all: leave it out, or add --all")
	case o.all && !o.yes && !o.atTerminal():
		return ui.BadUsage("--all also removes objects in use, but stdin is not a terminal to confirm on: " +
			"add --yes, or choose one run with --run ID")
	}
	return nil
}

// atTerminal reports whether a person can answer a prompt.
func (a *app) atTerminal() bool { return ui.IsTerminal(a.In) && ui.IsTerminal(a.ErrOut) }

// clean removes the objects that the flags select. With --all it asks for confirmation first.
func (o *cleanOptions) clean(ctx context.Context) error {
	client, found, err := o.leftovers(ctx)
	if client == nil {
		return err
	}
	errs := []error{err}
	if o.run == "" && !o.all && !client.Dated() && slices.ContainsFunc(found,
		func(l injector.Leftover) bool { return l.InUse && !l.Fixed }) {
		errs = append(errs, errors.New("the API server's responses have no Date header, so expired objects cannot be recognized: "+
			"'calico-probe clean --run ID' removes the objects of one run"))
	}
	var remove []injector.Leftover
	running := false
	for _, l := range found {
		text := ""
		switch {
		case lasting(l):
			running, text = true, stillRunning(l)
		case l.Fixed:
			text = fmt.Sprintf("cannot be removed: Kubernetes lists it until its pod is replaced; "+
				"its process exits within %v after the client exits: %v", probe.Silence, l)
		case l.InUse && !o.all && o.run == "":
			text = fmt.Sprintf("in use, kept ('calico-probe clean --run %s' removes it): %v", l.Run, l)
		default:
			remove = append(remove, l)
			continue
		}
		if _, err := fmt.Fprintln(o.Out, ui.Advised(text)); err != nil {
			return err
		}
	}
	if o.all && !o.yes && len(remove) > 0 {
		if yes, err := o.agreed(ctx, remove); !yes {
			if unlisted := errors.Join(errs...); unlisted != nil && errors.As(err, new(ui.Exit)) {
				return unlisted // the error is not printed yet
			}
			return errors.Join(append(errs, err)...)
		}
	}
	errs = append(errs, o.remove(ctx, client, remove))
	switch err := errors.Join(errs...); {
	case err == nil && running:
		return ui.Exit(report.ExitTool)
	case err != nil || len(found) > 0:
		return err
	}
	nothing := "nothing to remove"
	if o.run != "" {
		nothing = "nothing to remove for run " + o.run
		if n := *o.flags.Namespace; n != "" {
			nothing += " in namespace " + n + "; -n limits the search to this namespace"
		}
	}
	_, err = fmt.Fprintln(o.Out, nothing)
	return err
}

// lasting reports whether an ephemeral container has run for longer than a probe can run without its client. The
// cluster does not show whether the client still runs.
func lasting(l injector.Leftover) bool { return l.Fixed && l.Ran > probe.Silence }

// stillRunning describes a lasting container and the only way to stop it.
func stillRunning(l injector.Leftover) string {
	image := "image " + l.Image
	if l.Privileged {
		image += ", privileged"
	}
	return fmt.Sprintf("STILL RUNNING after %s, %s: %v; if run %s is no longer active, replace the pod to stop it: "+
		"'kubectl -n %s delete pod %s' (restarts calico-node on %s)",
		duration.HumanDuration(l.Ran), image, l, l.Run, l.Namespace, l.Pod, l.Node)
}

// leftovers returns the leftovers of the named run, or of all runs. A nil client means that no request was possible.
// With a client, the error is about objects that could not be listed.
func (o *cleanOptions) leftovers(ctx context.Context) (*injector.Client, []injector.Leftover, error) {
	ctx, cancel := context.WithTimeout(ctx, cleanLimit)
	defer cancel()
	config, err := o.restConfig()
	if err != nil {
		return nil, nil, err
	}
	client, err := injector.NewClient(config)
	if err != nil {
		return nil, nil, err
	}
	in := cluster.Namespaces(string(o.calicoNamespace))
	found, err := client.Leftovers(ctx, *o.flags.Namespace, cluster.CalicoPods,
		func(p *corev1.Pod) bool { return cluster.Verified(p, in) })
	found = slices.DeleteFunc(found, func(l injector.Leftover) bool { return o.run != "" && l.Run != o.run })
	return client, found, err
}

// remove removes the listed objects, and prints a line for each object.
func (o *cleanOptions) remove(ctx context.Context, client *injector.Client, all []injector.Leftover) error {
	ctx, cancel := context.WithTimeout(ctx, cleanLimit)
	defer cancel()
	var errs []error
	for _, l := range all {
		if err := client.Remove(ctx, l); err != nil {
			errs = append(errs, err)
		} else if _, err := fmt.Fprintln(o.Out, "removed", l); err != nil {
			return err
		}
	}
	return errors.Join(errs...)
}

// agreed lists the objects to remove and asks a person to confirm. It ignores input typed before the prompt.
func (o *cleanOptions) agreed(ctx context.Context, all []injector.Leftover) (bool, error) {
	used := 0
	for _, l := range all {
		text := "ended: "
		if l.InUse {
			text = "IN USE: "
			used++
		}
		if _, err := fmt.Fprintln(o.ErrOut, text+l.String()); err != nil {
			return false, err
		}
	}
	text, err := o.typed(ctx, fmt.Sprintf("remove these %d objects, of which %d may be in use? Type yes: ", len(all), used),
		"nothing was removed")
	if text == "yes" || err != nil {
		return text == "yes", err
	}
	_, err = fmt.Fprintln(o.Out, "nothing was removed: the answer was not \"yes\"")
	return false, errors.Join(err, ui.Exit(report.ExitTool))
}

// completeLimit is the maximum time that a completion waits for the API.
const completeLimit = 5 * time.Second

// runs completes a run ID with the IDs of runs that left objects behind.
func (o *cleanOptions) runs(cmd *cobra.Command, _ []string, _ string) ([]string, cobra.ShellCompDirective) {
	ctx, cancel := context.WithTimeout(cmd.Context(), completeLimit)
	defer cancel()
	_, found, _ := o.leftovers(ctx) // objects that cannot be listed are not completed
	var ids []string
	for _, l := range found {
		if !l.Fixed && !slices.Contains(ids, l.Run) && runID.MatchString(l.Run) {
			ids = append(ids, l.Run)
		}
	}
	return ids, cobra.ShellCompDirectiveNoFileComp
}
