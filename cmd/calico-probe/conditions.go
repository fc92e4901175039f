package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/calico-probe/calico-probe/injector"
	"github.com/calico-probe/calico-probe/internal/apierror"
	"github.com/calico-probe/calico-probe/internal/cluster"
	"github.com/calico-probe/calico-probe/internal/conditions"
	"github.com/calico-probe/calico-probe/internal/examine"
	"github.com/calico-probe/calico-probe/internal/fleet"
	"github.com/calico-probe/calico-probe/internal/report"
	"github.com/calico-probe/calico-probe/internal/ui"
	"github.com/calico-probe/calico-probe/probe"
)

const conditionsExample = `  # write the conditions once, as a Job or CronJob does (rights: 'calico-probe manifests --methods conditions')
  calico-probe conditions

  # write the conditions every five minutes, until stopped
  calico-probe conditions --every 5m

  # dry run
  calico-probe conditions --dry-run

  # remove the condition from all nodes
  calico-probe conditions --remove`

// conditionFlags are the flags of the verb.
type conditionFlags struct {
	*runFlags
	several severalNodes
	every   time.Duration
	beat    time.Duration
	most    string
	remove  bool
	dryRun  bool
}

// For --every: the shortest interval, and the interval for rewriting an unchanged condition.
const (
	minEvery      = 30 * time.Second
	conditionBeat = 30 * time.Minute
)

// maxUnwritten is the number of failed writes after which a round stops writing: permission may be missing.
const maxUnwritten = 10

func (a *app) conditions() *cobra.Command {
	o := &conditionFlags{runFlags: &runFlags{app: a, Options: examine.Options{
		Via: injector.MethodAPI, Profile: string(probe.Standard), FailOn: examine.FailOnFail,
	}}}
	cmd := &cobra.Command{
		Use: "conditions", Short: "Write each node's verdict to the node condition " + conditions.Type, Example: conditionsExample,
		Long: `Judges nodes as 'run --all-nodes' does, but only through the API unless you set --via. It writes
the condition ` + conditions.Type + ` of each Node: True if nothing is broken, False with the cause
if something is, Unknown if too few checks could run. It writes a condition when it changes. It also
rewrites an unchanged condition after 30 minutes, so that readers can recognize a stale one.

Controllers can act on conditions. A node turns False or Unknown only if two rounds agree, at
least 30 seconds apart. Until then, an annotation keeps the first result. A node turns True at
once. If more nodes than --at-most would be False or Unknown, the command does not turn any node
False or Unknown. It names those nodes and exits 5. If a cluster-wide list fails, it does not
write any condition and exits 1. It also exits 1 if it cannot write a condition. Otherwise it
exits 0 once the conditions are written, regardless of their status.`,
		Args: noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error { return o.write(cmd.Context()) },
	}
	f := cmd.Flags()
	o.several.choosing(f)
	f.DurationVar(&o.every, "every", 0, "judge all nodes again at this interval (30s or more); 0 = once")
	f.StringVar(&o.most, "at-most", "10%", "maximum number of nodes in the cluster that can be False or Unknown: a number, or a percentage (which allows at least 3 nodes, and all nodes only with 100%)")
	f.BoolVar(&o.dryRun, "dry-run", false, "print what would be written, without writing it")
	f.BoolVar(&o.remove, "remove", false, "remove the condition from the nodes")
	o.beat = conditionBeat
	o.asking(cmd)
	via := f.Lookup("via")
	via.DefValue, o.Via = injector.MethodAPI, injector.MethodAPI
	via.Usage = "how to judge nodes: api, or pod to place a probe on each node (for more than 20 nodes, asks first unless --yes is set)"
	f.Lookup("timeout").Usage = "time limit of each round"
	a.connecting(cmd)
	o.completions(cmd)
	return cmd
}

// write runs all rounds.
func (o *conditionFlags) write(ctx context.Context) error {
	if err := o.check(); err != nil {
		return err
	}
	client, err := o.client()
	if err != nil {
		return err
	}
	for begun := false; ; begun = true {
		round, cancel := o.Deadline(ctx)
		err := probe.Recovered(func() error { return o.round(round, client) })
		if over, late := errors.AsType[examine.TimeoutError](context.Cause(round)); late && err != nil {
			err = over
		}
		cancel()
		if o.every == 0 || !begun && refuses(err) {
			return err
		}
		if err != nil && !errors.As(err, new(ui.Exit)) { // the next round may succeed
			client.Note("this round failed: %s", apierror.Explain(err))
		}
		next := time.NewTimer(o.every)
		select {
		case <-next.C:
		case <-ctx.Done():
			next.Stop()
			return nil
		}
	}
}

// refuses reports whether the user caused an error by setting a wrong flag or by declining. Such an error ends a loop
// only in the first round. In a later round it means that the cluster changed: for example, it now has a 21st node.
func refuses(err error) bool {
	return errors.As(err, new(ui.UsageError)) || errors.As(err, new(ui.DeclinedError))
}

func (o *conditionFlags) check() error {
	switch {
	case o.every != 0 && o.every < minEvery:
		return ui.BadUsage("--every must be %v or more", minEvery)
	case injector.AccessOf(o.Via).AsRoot:
		return ui.BadUsage("--via kubelet is only for interactive use: use api or pod")
	case o.every != 0 && (o.remove || o.dryRun):
		return ui.BadUsage("--every excludes --remove and --dry-run, which run once")
	}
	if _, err := atMost(o.most, 100); err != nil {
		return err
	}
	return o.Validate()
}

// atMost parses a number, or a percentage of the nodes. A percentage below 100 allows at least three nodes, so that
// small clusters are not blocked. In a cluster with several nodes, it never allows all of them.
func atMost(text string, nodes int) (int, error) {
	share, isShare := strings.CutSuffix(text, "%")
	n, err := strconv.Atoi(share)
	if err != nil || n < 0 || isShare && n > 100 {
		return 0, ui.BadUsage("--at-most takes a number or a percentage such as 10%%, not %q", text)
	}
	if isShare && n < 100 {
		return min(max(nodes*n/100, 3), max(nodes-1, 1)), nil
	}
	if isShare {
		return nodes, nil
	}
	return n, nil
}

// round judges the nodes once and writes the changes.
func (o *conditionFlags) round(ctx context.Context, client *examine.Client) error {
	reader, err := client.Reader()
	if err != nil {
		return err
	}
	writer, err := client.Writer()
	if err != nil {
		return err
	}
	if o.remove {
		return o.takeAway(ctx, reader, writer)
	}
	found, run, err := o.judge(ctx, client)
	if err != nil {
		return err
	}
	// Read after judging, which may take minutes: the limit applies to nodes that are False or Unknown now. It applies to
	// the whole cluster, so it counts all nodes even if only some are judged.
	had, err := reader.Conditions(ctx, conditions.Type, conditions.PendingKey, "")
	if err != nil {
		return err
	}
	most, err := atMost(o.most, len(had))
	if err != nil {
		return err
	}
	maps.DeleteFunc(found, func(node string, _ conditions.Condition) bool { _, is := had[node]; return !is })
	before := standings(had)
	plan := conditions.Plan(before, found, conditions.Limits{Beat: o.beat, Most: most}, time.Now())
	written, err := o.writeAll(ctx, writer, plan)
	if err != nil {
		return err
	}
	for _, node := range plan.Fresh {
		o.show(node, found[node], waits(plan))
	}
	ui.Say(o.ErrOut, "run %s: nodes judged: %d, conditions %s: %d, pending until the next round: %d", run, len(found),
		o.done("written"), written, plan.Pending)
	limit := fmt.Sprintf("--at-most %s (%d of %d nodes)", o.most, most, len(had))
	reached, held := conditions.Reached(before), plan.Held
	switch {
	case len(held) > 0:
		ui.Say(o.ErrOut, "%d nodes are False or Unknown, and %d more would exceed %s: nothing was written for %s; see "+
			"'calico-probe run --all-nodes'", reached, len(held), limit, probe.Line(shortList(held)))
		return ui.Exit(report.ExitIncomplete)
	case plan.Above:
		ui.Say(o.ErrOut, "%d nodes are False or Unknown, and %d more would exceed %s: their conditions will not be "+
			"written, even if the next round agrees; see 'calico-probe run --all-nodes'", reached, plan.Turning, limit)
	}
	return nil
}

// waits returns the message suffix for a pending condition.
func waits(plan conditions.Round) string {
	if plan.Above {
		return " (pending, more than --at-most)"
	}
	return " (pending until the next round)"
}

// show prints a node's condition.
func (o *conditionFlags) show(node string, c conditions.Condition, suffix string) {
	fmt.Fprintf(o.Out, "%s %s %s: %s%s\n", probe.Line(node), c.Status, c.Reason, probe.Line(c.Message), suffix)
}

// standings converts the conditions that earlier rounds wrote.
func standings(had map[string]cluster.NodeCondition) map[string]conditions.Standing {
	out := map[string]conditions.Standing{}
	for node, c := range had {
		out[node] = conditions.Standing{Pending: conditions.ParsePending(c.Annotation),
			Condition: conditions.Condition{Status: string(c.Status), Reason: c.Reason, Message: c.Message,
				Heartbeat: c.LastHeartbeatTime.Time, Since: c.LastTransitionTime.Time}}
	}
	return out
}

// shortList joins at most listedNodes names.
func shortList(names []string) string {
	if n := len(names) - listedNodes; n > 0 {
		return strings.Join(names[:listedNodes], ", ") + fmt.Sprintf(" and %d more", n)
	}
	return strings.Join(names, ", ")
}

// judge starts a run over the nodes and returns the findings for each node.
func (o *conditionFlags) judge(ctx context.Context, client *examine.Client) (found map[string]conditions.Condition,
	id string, err error) {
	run, err := fleet.New(client, fleet.Options{Options: o.Options, Nodes: o.several.named, Select: o.several.selector,
		All: len(o.several.named) == 0 && o.several.selector == "", Whole: true})
	if err != nil {
		return nil, "", err
	}
	var all report.Fleet
	run.Sink = report.CollectFleet(&all)
	if err := concluded(run.Do(ctx)); err != nil {
		return nil, "", err
	}
	found = map[string]conditions.Condition{}
	for _, n := range all.Nodes {
		found[n.Node] = conditions.Of(n, run.ID)
	}
	return found, run.ID, nil
}

// writeAll writes changes one at a time, because the API server limits the rate. It returns the number of written
// conditions. If one node fails, it still writes the others.
func (o *conditionFlags) writeAll(ctx context.Context, writer *injector.Client, plan conditions.Round) (
	written int, err error) {
	var failed []error
	for _, node := range slices.Sorted(maps.Keys(plan.Changes)) {
		c := plan.Changes[node]
		switch {
		case !c.Write:
			o.show(node, c.Condition, waits(plan))
		case o.dryRun || c.Status != conditions.True:
			o.show(node, c.Condition, "")
		}
		err := o.writeOne(ctx, writer, node, c)
		switch {
		case err == nil && c.Write:
			written++
		case err != nil:
			if failed = append(failed, err); ctx.Err() != nil || len(failed) == maxUnwritten {
				return written, failed[0] // probably the same for all nodes
			}
		}
	}
	if n := len(failed) - 1; n > 0 {
		return written, fmt.Errorf("%w; %d more nodes failed too", failed[0], n)
	}
	return written, errors.Join(failed...)
}

// writeOne writes one node's change.
func (o *conditionFlags) writeOne(ctx context.Context, writer *injector.Client, node string,
	c conditions.Change) error {
	if o.dryRun {
		return nil
	}
	var write *corev1.NodeCondition
	if c.Write {
		write = &corev1.NodeCondition{
			Type: conditions.Type, Status: corev1.ConditionStatus(c.Status), Reason: c.Reason, Message: c.Message,
			LastHeartbeatTime: metav1.NewTime(c.Heartbeat), LastTransitionTime: metav1.NewTime(c.Since),
		}
	}
	return writer.WriteCondition(ctx, node, write, conditions.PendingKey, c.Pending.String())
}

// takeAway removes the condition and the annotation from all nodes.
func (o *conditionFlags) takeAway(ctx context.Context, reader *cluster.Client, writer *injector.Client) error {
	had, err := reader.Conditions(ctx, conditions.Type, conditions.PendingKey, o.several.selector)
	if err != nil {
		return err
	}
	for _, node := range slices.Sorted(maps.Keys(had)) {
		if len(o.several.named) > 0 && !slices.Contains(o.several.named, node) ||
			had[node].Type == "" && had[node].Annotation == "" {
			continue
		}
		if !o.dryRun {
			if err := writer.RemoveCondition(ctx, node, conditions.Type, conditions.PendingKey); err != nil {
				return err
			}
		}
		fmt.Fprintf(o.Out, "%s: %s\n", probe.Line(node), o.done("removed"))
	}
	return nil
}

// done returns the participle for a message, after "would be" in a dry run.
func (o *conditionFlags) done(what string) string {
	if o.dryRun {
		return "would be " + what
	}
	return what
}
