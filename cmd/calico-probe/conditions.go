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

	"github.com/calico-probe/calico-probe/cluster"
	"github.com/calico-probe/calico-probe/conditions"
	"github.com/calico-probe/calico-probe/examine"
	"github.com/calico-probe/calico-probe/fleet"
	"github.com/calico-probe/calico-probe/injector"
	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/report"
	"github.com/calico-probe/calico-probe/ui"
)

const conditionsExample = `  # once, as a Job or CronJob does; 'calico-probe manifests --ways conditions' has its rights
  calico-probe conditions

  # every five minutes, until it is stopped
  calico-probe conditions --every 5m

  # what would be written?
  calico-probe conditions --dry-run

  # take them from all nodes again
  calico-probe conditions --remove`

// conditionFlags are those of the verb.
type conditionFlags struct {
	*runFlags
	several severalNodes
	every   time.Duration
	beat    time.Duration
	most    string
	remove  bool
	dryRun  bool
}

// Of a loop: how often at most, and how often a condition is written that says the same.
const (
	leastEvery    = 30 * time.Second
	conditionBeat = 30 * time.Minute
)

// mostUnwritten is after how many conditions that cannot be written no more are tried: the right to it may be missing.
const mostUnwritten = 10

func (a *app) conditions() *cobra.Command {
	o := &conditionFlags{runFlags: &runFlags{app: a, Options: examine.Options{
		Via: injector.MethodAPI, Profile: string(probe.Standard), FailOn: examine.FailOnFail,
	}}}
	cmd := &cobra.Command{
		Use: "conditions", Short: "Write what is found of each node as its condition " + conditions.Type, Example: conditionsExample,
		Long: `Judges nodes as 'run --all-nodes' does, by the API alone unless --via says more, and writes
the condition ` + conditions.Type + ` of each Node: True while nothing is broken, False with the cause
where something is, Unknown where too little could be asked. Nothing else of a Node is
written, and only what changed; a condition that says the same is written again after
30 minutes, so that a reader can tell an old one.

Others act on conditions. So where more nodes than --at-most would turn False together,
none of them does: exit code 5, and a line that names them. Else it exits 0 once they are
written, whatever was found, and 1 where one could not be.`,
		Args: noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error { return o.write(cmd.Context()) },
	}
	f := cmd.Flags()
	o.several.choosing(f)
	f.DurationVar(&o.every, "every", 0, "go on, and judge all again so often (30s or more); 0 = once")
	f.StringVar(&o.most, "at-most", "10%", "how many nodes may turn False together: a number, or a share of all, with at least 3 and never all but by 100%")
	f.BoolVar(&o.dryRun, "dry-run", false, "write nothing; say what would be")
	f.BoolVar(&o.remove, "remove", false, "take the condition from the nodes")
	o.beat = conditionBeat
	o.asking(cmd)
	via := f.Lookup("via")
	via.DefValue, o.Via = injector.MethodAPI, injector.MethodAPI
	via.Usage = "by what nodes are judged: api, or pod for a probe on each"
	f.Lookup("timeout").Usage = "limit of each round"
	a.connecting(cmd)
	o.completions(cmd)
	return cmd
}

// write is all rounds.
func (o *conditionFlags) write(ctx context.Context) error {
	if err := o.check(); err != nil {
		return err
	}
	client, err := o.client()
	if err != nil {
		return err
	}
	for {
		round, cancel := o.Deadline(ctx)
		err := o.round(round, client)
		if over, late := errors.AsType[examine.TimeoutError](context.Cause(round)); late && err != nil {
			err = over
		}
		cancel()
		if o.every == 0 || errors.As(err, new(ui.UsageError)) {
			return err
		}
		if err != nil && !errors.As(err, new(ui.Exit)) { // the next one may do better
			client.Note("this round failed: %s", cluster.Explain(err))
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

func (o *conditionFlags) check() error {
	switch {
	case o.every != 0 && o.every < leastEvery:
		return ui.BadUsage("--every takes %v or more", leastEvery)
	case o.Via == injector.MethodKubelet:
		return ui.BadUsage("--via kubelet is for people, and conditions are written by a program: use api or pod")
	case o.every != 0 && (o.remove || o.dryRun):
		return ui.BadUsage("--every goes on; --remove and --dry-run are done once: leave one of them out")
	}
	if _, err := atMost(o.most, 100); err != nil {
		return err
	}
	return o.Validate()
}

// atMost reads a number, or a share of so many nodes: three at least, and of several never all, but for all of them.
func atMost(text string, nodes int) (int, error) {
	share, isShare := strings.CutSuffix(text, "%")
	n, err := strconv.Atoi(share)
	if err != nil || n < 0 || isShare && n > 100 {
		return 0, ui.BadUsage("--at-most takes a number, or a share as 10%%, and not %q", text)
	}
	if isShare && n < 100 {
		return min(max(nodes*n/100, 3), max(nodes-1, 1)), nil
	}
	if isShare {
		return nodes, nil
	}
	return n, nil
}

// round judges the nodes and writes what is new.
func (o *conditionFlags) round(ctx context.Context, client *examine.Client) error {
	reader, err := client.Reader()
	if err != nil {
		return err
	}
	had, err := reader.Conditions(ctx, conditions.Type, o.several.selector)
	if err != nil {
		return err
	}
	writer, err := client.Writer()
	if err != nil {
		return err
	}
	if o.remove {
		return o.takeAway(ctx, writer, had)
	}
	found, run, err := o.judge(ctx, client)
	if err != nil {
		return err
	}
	most, err := atMost(o.most, len(found))
	if err != nil {
		return err
	}
	now := map[string]conditions.Condition{}
	for node, c := range had {
		now[node] = conditions.Condition{Status: string(c.Status), Reason: c.Reason, Message: c.Message,
			Heartbeat: c.LastHeartbeatTime.Time, Since: c.LastTransitionTime.Time}
	}
	write, held := conditions.Plan(now, found, o.beat, most, time.Now())
	if err := o.writeAll(ctx, writer, write); err != nil {
		return err
	}
	ui.Say(o.ErrOut, "run %s: nodes judged: %d, conditions %s: %d", run, len(found), o.done("written"), len(write))
	if len(held) > 0 {
		ui.Say(o.ErrOut, "%d nodes would turn False together, more than --at-most %s: not written of %s; look at "+
			"'calico-probe run --all-nodes'", len(held), o.most, probe.Line(shortList(held)))
		return ui.Exit(report.ExitIncomplete)
	}
	return nil
}

// shortList names some.
func shortList(names []string) string {
	if n := len(names) - listedNodes; n > 0 {
		return strings.Join(names[:listedNodes], ", ") + fmt.Sprintf(" and %d more", n)
	}
	return strings.Join(names, ", ")
}

// judge is what a run over the nodes found of each.
func (o *conditionFlags) judge(ctx context.Context, client *examine.Client) (found map[string]conditions.Condition,
	id string, err error) {
	run, err := fleet.New(client, fleet.Options{Options: o.Options, Nodes: o.several.named, Select: o.several.selector,
		All: len(o.several.named) == 0 && o.several.selector == ""})
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

// writeAll writes conditions, one after the other: the API server limits how fast. A node of which one cannot be
// written does not keep the others from theirs.
func (o *conditionFlags) writeAll(ctx context.Context, writer *injector.Client,
	all map[string]conditions.Condition) error {
	var failed []error
	for _, node := range slices.Sorted(maps.Keys(all)) {
		c := all[node]
		if o.dryRun || c.Status != conditions.True {
			fmt.Fprintf(o.Out, "%s %s %s: %s\n", probe.Line(node), c.Status, c.Reason, probe.Line(c.Message))
		}
		if o.dryRun {
			continue
		}
		err := writer.WriteCondition(ctx, node, corev1.NodeCondition{
			Type: conditions.Type, Status: corev1.ConditionStatus(c.Status), Reason: c.Reason, Message: c.Message,
			LastHeartbeatTime: metav1.NewTime(c.Heartbeat), LastTransitionTime: metav1.NewTime(c.Since),
		})
		if err == nil {
			continue
		}
		if failed = append(failed, err); ctx.Err() != nil || len(failed) == mostUnwritten {
			return failed[0] // of all of them, it seems
		}
	}
	if n := len(failed) - 1; n > 0 {
		return fmt.Errorf("%w; nor those of %d more nodes", failed[0], n)
	}
	return errors.Join(failed...)
}

// takeAway removes the condition where it is.
func (o *conditionFlags) takeAway(ctx context.Context, writer *injector.Client,
	had map[string]corev1.NodeCondition) error {
	for _, node := range slices.Sorted(maps.Keys(had)) {
		if len(o.several.named) > 0 && !slices.Contains(o.several.named, node) {
			continue
		}
		if !o.dryRun {
			if err := writer.RemoveCondition(ctx, node, conditions.Type); err != nil {
				return err
			}
		}
		fmt.Fprintf(o.Out, "%s: %s\n", probe.Line(node), o.done("removed"))
	}
	return nil
}

// done says what was done, or would be.
func (o *conditionFlags) done(what string) string {
	if o.dryRun {
		return "would be " + what
	}
	return what
}
