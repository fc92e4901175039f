package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/calico-probe/calico-probe/cluster"
	"github.com/calico-probe/calico-probe/injector"
	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/probe/checks"
)

// The ways onto a node, in the order auto tries them. The API is no way onto
// the node: it is always asked first.
const (
	wayAPI       = "api"
	wayPod       = "pod"
	wayEphemeral = "ephemeral"
	wayExec      = "exec"
	waySSH       = "ssh"
	wayLocal     = "local"

	wayPair = "pair" // no way of its own: two probes that talk to each other
)

func wayNames() []string {
	return []string{
		wayAPI,
		wayPod,
		wayEphemeral,
		wayExec,
		waySSH,
		wayNeighbour,
		wayLocal,
	}
}

// askNode gets a probe onto the node by the first way that works and passes its
// answer on. No way is a result too. The error is one of writing the report.
func (o *runOptions) askNode(ctx context.Context, snap *cluster.Snapshot) error {
	steps, err := o.ladder()
	if err != nil {
		return err
	}
	silent := snap != nil && cluster.KubeletSilent(snap)
	var before []tried
	var said []probe.Event
	for i := 0; ctx.Err() == nil; i++ {
		if i == len(steps) {
			if len(before) == 0 || !before[0].early {
				break
			}
			// Nothing else works: then a node that is only slow gets its time after all.
			before[0].early, said = false, said[1:]
			steps = append(steps, rung{name: steps[0].name, open: steps[0].open, patient: true})
		}
		step := steps[i]
		a := attemptOf(step, len(steps) > 1, before, silent)
		if a.skip != "" {
			said = append(said, notTried(step.name, a))
			continue
		}
		began := time.Now()
		o.progress("%s: putting a probe on %s", step.name, o.node)
		session, err := step.open(ctx, o.placement(step.name, snap, a))
		if err == nil {
			var lost *probe.Event
			lost, err = o.converse(ctx, step.name, session, snap, time.Since(began), said, i+1 == len(steps))
			if lost == nil {
				return err
			}
			said = append(said, *lost)
			before = append(before, tried{way: step.name, reason: injector.ReasonAttach})
			continue
		}
		o.progress("%s: %v", step.name, err)
		namespace := ""
		if step.name == wayPod {
			namespace = o.namespace(snap)
		}
		said = append(said, unplaced(step.name, namespace, err))
		before = append(before, refusalOf(step.name, err, time.Since(began), a))
	}
	return o.notOnto(said)
}

// notOnto says which ways were tried in vain.
func (o *runOptions) notOnto(said []probe.Event) error {
	last := len(said) - 1
	for last > 0 && said[last].Result.Status == probe.Skip {
		last--
	}
	for i, ev := range said {
		if i == last {
			ev.Result.Saw += fmt.Sprintf("; the %d checks on the node were not asked: 'calico-probe run --via local' on the node itself asks them", len(o.nodeChecks()))
		}
		if err := o.emit(ev.Way, ev); err != nil {
			return err
		}
	}
	return nil
}

// rung is one step of the ladder.
type rung struct {
	name    string
	open    injector.Way
	patient bool // the second time, with all the time there is
}

// ladder is the way the user named, or all of them.
func (o *runOptions) ladder() ([]rung, error) {
	if o.via == wayLocal {
		runner := &probe.Runner{Suite: checks.All(), Host: &probe.Host{Node: o.node, Root: "/", Proc: "/proc"}, Version: probe.Release}
		return []rung{{name: wayLocal, open: injector.Local(runner)}}, nil
	}
	config, err := o.restConfig()
	if err != nil {
		return nil, err
	}
	client, err := injector.NewClient(config)
	if err != nil {
		return nil, err
	}
	all := []rung{
		{name: wayPod, open: injector.Pod(client)},
		{name: wayEphemeral, open: injector.Ephemeral(client)},
		{name: wayExec, open: injector.Exec(client)},
	}
	if o.ssh != sshNone {
		all = append(all, rung{name: waySSH, open: injector.SSH()})
	}
	for _, s := range all {
		if s.name == o.via {
			return []rung{s}, nil
		}
	}
	return all, nil
}

// How long to wait for a probe to start unless the user says. A healthy node
// takes a second; one whose kubelet has not been heard of for 40 s will hardly
// start anything, and somebody is waiting.
const (
	startUsual  = 40 * time.Second
	startSilent = 10 * time.Second
	// With other ways to go, less will do. A second of silence is usual; eight are not.
	startDoubted = 5 * time.Second
	idle         = 8 * time.Second
)

// tried is a way that came to nothing.
type tried struct {
	way    string
	reason injector.Reason
	waited bool // nobody said no: the time was up
	early  bool // and that was earlier than it had to be
}

func refusalOf(way string, err error, took time.Duration, a attempt) tried {
	t := tried{way: way}
	if pe, ok := errors.AsType[*injector.PlacementError](err); ok {
		t.reason, t.waited = pe.Reason, pe.Waited
	}
	t.early = t.waited && a.idle > 0 && took < a.start
	return t
}

// attempt is how long a way is given to start a probe, or why it is not tried.
type attempt struct {
	start   time.Duration
	idle    time.Duration // how long nothing at all may happen, 0 = as long
	skip    string
	because injector.Reason
}

// attemptOf decides about one way from what came of those before it: what stood in
// their way may stand in this one's too, and an ephemeral container that waits for
// something can never be taken out of its pod again. silent: the kubelet's lease has
// run out.
func attemptOf(step rung, others bool, before []tried, silent bool) attempt {
	a := attempt{start: startUsual}
	switch {
	case step.patient:
		return a
	case silent && others:
		a.start = startDoubted
	case silent:
		a.start = startSilent
	case others:
		a.idle = idle
	}
	if step.name == waySSH {
		return a // asks neither the API nor a kubelet
	}
	for _, t := range before {
		switch {
		case t.reason == injector.ReasonAPI:
			a.skip = "it leads through the API server too, which fails"
		case t.reason == injector.ReasonKubelet && t.waited:
			a.skip = "it takes the same kubelet, which has taken nothing up"
		case t.reason == injector.ReasonRuntime && t.waited:
			a.skip = "it takes the same container runtime, which has started nothing"
		case t.reason == injector.ReasonAttach:
			a.skip = "it leads through the kubelet's port 10250 too"
		case t.reason == injector.ReasonImage && step.name == wayEphemeral:
			a.skip = "it takes the same image"
		default:
			continue
		}
		a.because = t.reason
		break
	}
	return a
}

// notTried is the result of a way that is not worth trying.
func notTried(way string, a attempt) probe.Event {
	r := probe.Found(probe.Skip, "not tried: %s", a.skip).On(way).With(probe.FactReason, string(a.because))
	r.Check = probe.CheckPlaced
	return probe.Event{Type: probe.EventResult, Result: &r, Way: way}
}

// sshNone is the --ssh that keeps ssh out of the ladder.
const sshNone = "none"

// destination is where ssh is to go: what the user says, else the node's address.
func (o *runOptions) destination(node *corev1.Node) string {
	ip := ""
	for _, a := range node.Status.Addresses {
		if a.Type == corev1.NodeInternalIP && ip == "" {
			ip = a.Address
		}
	}
	if ip == "" && (o.ssh == "" || strings.Contains(o.ssh, "{ip}")) {
		return ""
	}
	return strings.NewReplacer("{node}", node.Name, "{ip}", ip).Replace(cmp.Or(o.ssh, "{ip}"))
}

func (o *runOptions) placement(way string, snap *cluster.Snapshot, a attempt) injector.Options {
	opts := injector.Options{
		Node: o.node, Namespace: o.namespace(snap), Image: o.image, PullSecret: o.pullSecret, Run: o.id,
		Who: whoami(), Reason: o.reason, Checks: o.nodeChecks(), Needed: probe.Capabilities(o.picked), Privileged: o.privileged,
		Start: a.start, Idle: a.idle, Whole: o.timeout, SSHConfig: o.sshConfig,
		Progress: func(text string) { o.progress("%s: %s", way, text) },
		Note:     func(text string) { o.note("%s: %s", way, text) },
	}
	if o.startTimeout > 0 {
		opts.Start, opts.Idle = o.startTimeout, 0
	}
	if snap != nil {
		opts.Calico, opts.CalicoErr = snap.Calico, snap.CalicoErr
		opts.Arch = snap.Node.Status.NodeInfo.Architecture
		opts.Carried = carriedProbe(opts.Arch)
		opts.Destination = o.destination(snap.Node)
		opts.Running = func(ctx context.Context) ([]corev1.Pod, error) { return o.runningOn(ctx, snap.Node.Name) }
	}
	return opts
}

// runningOn lists the pods that run on a node, for the way that goes into one.
func (o *runOptions) runningOn(ctx context.Context, node string) ([]corev1.Pod, error) {
	config, err := o.restConfig()
	if err != nil {
		return nil, err
	}
	client, err := cluster.NewClient(config)
	if err != nil {
		return nil, err
	}
	return client.Running(ctx, node)
}

// namespace is where the probe pod goes: where the user says, else beside
// calico-node, whose namespace must admit privileged pods.
func (o *runOptions) namespace(snap *cluster.Snapshot) string {
	if n := o.flags.Namespace; n != nil && *n != "" {
		return *n
	}
	if snap != nil && snap.Calico != nil {
		return snap.Calico.Namespace
	}
	return "kube-system"
}

// converse sends the plan, passes the answer on until its end, and removes what
// was created, however it went. said is what the ways before came to, which is worth
// knowing and no more once this one works. Where nothing at all is heard from the
// probe and other ways are left, that is returned instead of being said.
func (o *runOptions) converse(ctx context.Context, way string, session *injector.Session, snap *cluster.Snapshot, took time.Duration, said []probe.Event, last bool) (lost *probe.Event, err error) {
	defer func() {
		if closeErr := session.Close(); closeErr != nil {
			o.note("%s: cleaning up: %v; remove what is left with 'calico-probe clean --all'", way, closeErr)
		}
	}()
	plan := probe.Plan{Run: o.id, Node: o.node, Way: way, Checks: o.nodeChecks(), Limit: o.checkTimeout}
	if snap != nil {
		plan.Targets, plan.Gaps = cluster.Targets(snap)
		plan.Now = snap.Now.Add(time.Since(snap.Read))
	}
	placed := probe.Found(probe.OK, "probe running after %s: %s", took.Round(10*time.Millisecond), strings.Join(session.Created(), ", "))
	placed.Check, placed.Target, placed.Elapsed = probe.CheckPlaced, way, took
	arrived := func() error {
		for _, ev := range said {
			if ev.Result.Status == probe.Unknown {
				ev.Result.Status = probe.Info
			}
			if err := o.emit(ev.Way, ev); err != nil {
				return err
			}
		}
		return o.emit(way, probe.Event{Type: probe.EventResult, Result: &placed})
	}
	ended, lost, err := o.pass(ctx, way, session, plan, arrived)
	if lost != nil && (last || ctx.Err() != nil) {
		if err := arrived(); err != nil {
			return nil, err
		}
		return nil, o.emit(way, *lost)
	}
	if err != nil || lost != nil || !ended || !o.proves(snap) {
		return lost, err
	}
	return nil, o.prove(ctx, session, snap)
}

// pass passes on what a probe answers to a plan; false when that was not all of it,
// which then has been said, or is lost where not even a first event came. arrived is
// called at that one. The error is one of writing the report.
func (o *runOptions) pass(ctx context.Context, way string, session *injector.Session, plan probe.Plan, arrived func() error) (ended bool, lost *probe.Event, err error) {
	open := slices.Clone(plan.Checks)
	var writing error
	heard := false
	err = answer(ctx, session, plan, func(ev probe.Event) bool {
		if !heard {
			heard, writing = true, arrived()
		}
		if ev.Result != nil {
			open = slices.DeleteFunc(open, func(id string) bool { return id == ev.Result.Check })
		}
		if writing == nil {
			writing = o.emit(way, ev)
		}
		return writing == nil
	})
	switch {
	case writing != nil:
		return false, nil, writing
	case err != nil && heard && len(open) > 0:
		err = fmt.Errorf("%w; without an answer: %s", err, strings.Join(open, ", "))
	}
	if err != nil {
		ev := unanswered(err)
		if !heard {
			ev.Way = way
			return false, &ev, nil
		}
		return false, nil, o.emit(way, ev)
	}
	return true, nil, nil
}

// answer sends a plan and gives every event up to its end to each, which returns
// false to stop.
func answer(ctx context.Context, session *injector.Session, plan probe.Plan, each func(probe.Event) bool) error {
	if err := session.Send(ctx, probe.Request{Type: probe.RequestPlan, Plan: &plan}); err != nil {
		return err
	}
	for {
		ev, err := session.Next(ctx)
		if err != nil {
			return err
		}
		if !each(ev) || ev.Type == probe.EventEnd {
			return nil
		}
	}
}

// unplaced is the result of a way that came to nothing; namespace is that of the pod
// it was to make, if any.
func unplaced(way, namespace string, err error) probe.Event {
	r := probe.Result{Check: probe.CheckPlaced, Target: way, Status: probe.Unknown, Saw: explainError(err)}
	if namespace != "" {
		r = r.With(probe.FactNamespace, namespace)
	}
	if pe, ok := errors.AsType[*injector.PlacementError](err); ok {
		r = r.With(probe.FactReason, string(pe.Reason))
	}
	return probe.Event{Type: probe.EventResult, Result: &r, Way: way}
}

func unanswered(err error) probe.Event {
	r := probe.Result{Check: probe.CheckAnswered, Status: probe.Unknown, Saw: explainError(err)}
	if pe, ok := errors.AsType[*injector.PlacementError](err); ok {
		r = r.With(probe.FactReason, string(pe.Reason))
	}
	return probe.Event{Type: probe.EventResult, Result: &r}
}

// note says what the user must know on any stream.
func (o *runOptions) note(format string, args ...any) { say(o.ErrOut, format, args...) }
