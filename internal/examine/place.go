package examine

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/calico-probe/calico-probe/injector"
	"github.com/calico-probe/calico-probe/internal/apierror"
	"github.com/calico-probe/calico-probe/internal/cluster"
	kubeletapi "github.com/calico-probe/calico-probe/internal/subject/kubelet/api"
	"github.com/calico-probe/calico-probe/internal/trace"
	"github.com/calico-probe/calico-probe/internal/ui"
	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/probe/facts"
)

// Attempts returns the access methods that may put a probe on the node. AskBy needs them. alive reports whether the
// node shows any sign of life.
func (r *Run) Attempts(snap *cluster.Snapshot, alive func() bool) (*injector.Fallback, error) {
	methods, err := r.methods()
	if err != nil {
		return nil, err
	}
	return r.attempts(methods, snap, alive), nil
}

func (r *Run) attempts(methods []injector.Method, snap *cluster.Snapshot, alive func() bool) *injector.Fallback {
	return &injector.Fallback{
		Methods: methods, Start: r.opts.StartTimeout, Alive: alive, Fatal: r.client.wrongNamespace,
		Silent:  snap != nil && (cluster.KubeletSilent(snap) || kubeletapi.RuntimeDown(snap)),
		Options: func(t injector.Try) injector.Options { return r.trying(t, snap) },
		Failed:  func(method string, err error) { r.client.Progress("%s: %s", method, apierror.Explain(err)) },
	}
}

// trying returns the options for one attempt. It shows a waiting user what is being tried and how long that may take.
func (r *Run) trying(t injector.Try, snap *cluster.Snapshot) injector.Options {
	opts, after, until := r.Placement(t.Method, snap), "", ""
	for _, f := range t.After {
		if f.Skip == "" {
			after = " after " + f.Method + " failed"
		}
	}
	if t.GivesUp > 0 {
		until = fmt.Sprintf(" (gives up by %v)", (time.Since(r.client.began) + t.GivesUp).Round(time.Second))
	}
	opts.Progress = func(text string) { r.client.Progress("%s: %s%s", t.Method, text, until) }
	opts.Progress("putting a probe on " + r.Node + after)
	if t.Method == injector.MethodSSH && opts.Destination != "" && r.opts.Via == ViaAuto && lacksRights(t.After) {
		r.client.Note("you lack the permission to start a probe on %s: trying ssh to %s for up to %v; "+
			"--via pod,ephemeral,exec leaves it out", r.Node, opts.Destination, t.GivesUp)
	}
	return opts
}

// lacksRights reports whether access methods failed, and whether all of them failed because the user lacks a
// permission.
func lacksRights(failed []injector.Failure) bool {
	return len(failed) > 0 && !slices.ContainsFunc(failed, func(f injector.Failure) bool {
		pe, is := errors.AsType[*injector.PlacementError](f.Err)
		return f.Skip == "" && (!is || pe.Reason != facts.ReasonRBAC)
	})
}

// place puts a probe on the node by the next access method that works. If none is left, it reports why and returns
// nil.
func (r *Run) place(ctx context.Context, tries *injector.Fallback, snap *cluster.Snapshot) (*injector.Placed, error) {
	if first := tries.Methods[0].Name; snap != nil && !injector.AccessOf(first).Here() {
		if why := cluster.NoProbeOn(snap.Node); why != "" {
			refused := &injector.PlacementError{Reason: facts.ReasonSupport, Text: why + ": checked through the API only"}
			return nil, r.Add(first, r.eventOf(injector.Failure{Method: first, Err: refused}, ""))
		}
	}
	p, err := tries.Next(ctx)
	if r.view != nil {
		r.view.ownTried()
	}
	if p != nil || err != nil {
		return p, err
	}
	return nil, r.notPlaced(tries.Failures(), snap)
}

// methods returns the access methods that --via allows, in that order.
func (r *Run) methods() ([]injector.Method, error) {
	if method := map[string]func() (injector.Method, error){
		injector.MethodLocal: r.local, injector.MethodKubelet: r.kubelet,
	}[r.opts.Via]; method != nil {
		m, err := method()
		return []injector.Method{m}, err
	}
	client, err := r.client.Writer()
	if err != nil {
		return nil, err
	}
	var out []injector.Method
	for _, name := range fallbacks(r.opts.Via) {
		open := injector.Opener(name, client)
		if injector.AccessOf(name).Pods {
			open = r.client.InEitherNamespace(open)
		}
		out = append(out, injector.Method{Name: name, Open: open})
	}
	return out, nil
}

// Placement returns the options for what an access method puts on the node.
func (r *Run) Placement(method string, snap *cluster.Snapshot) injector.Options {
	opts := r.opts.placement(r.client, method, snap)
	opts.Node, opts.Run, opts.Checks, opts.Needed = r.Node, r.ID, r.NodeChecks(), r.Capabilities()
	opts.Keep, opts.Shell = r.opts.InSession, r.opts.RootShell
	return opts
}

// placement returns the part of Placement that does not depend on the checks.
func (o Options) placement(client *Client, method string, snap *cluster.Snapshot) injector.Options {
	opts := injector.Options{
		Namespace: client.PodNamespace(snap), Image: o.Image, PullSecret: o.PullSecret,
		Who: ui.Whoami(), Reason: o.Reason, Privileged: o.Privileged, Whole: o.Timeout, SSHConfig: o.SSHConfig,
		Patience: o.StartTimeout,
		Progress: func(text string) { client.Progress("%s: %s", method, text) },
		Note:     func(text string) { client.Note("%s: %s", method, text) },
	}
	if snap == nil {
		return opts
	}
	opts.Calico, opts.CalicoErr = snap.Calico.Value, snap.Calico.Err
	// The API has answered, so it is worthwhile to try other access methods that use it.
	if errors.As(snap.Calico.Err, new(*cluster.UnverifiedError)) {
		opts.CalicoErr = injector.NoCalico(snap.Calico.Err)
	}
	opts.Arch = snap.Node.Status.NodeInfo.Architecture
	opts.Embedded = client.Probe(opts.Arch)
	opts.Destination, opts.Named = o.destination(snap.Node), o.SSH != "" && !strings.Contains(o.SSH, "{ip}")
	opts.Machine = machineIDOf(snap.Node, snap.Nodes)
	opts.Running = func(ctx context.Context) ([]corev1.Pod, error) { return client.runningOn(ctx, snap.Node.Name) }
	return opts
}

// destination returns ssh's destination: the user's choice, otherwise the node's address.
func (o Options) destination(node *corev1.Node) string {
	ip := internalIP(node)
	if ip == "" && (o.SSH == "" || strings.Contains(o.SSH, "{ip}")) {
		return ""
	}
	return strings.NewReplacer("{node}", node.Name, "{ip}", ip).Replace(cmp.Or(o.SSH, "{ip}"))
}

// internalIP returns the node's first InternalIP that is reachable from another machine, or "". The kubelet writes this
// status. A value that is not an IP address could smuggle in a user, a host or terminal escapes.
func internalIP(node *corev1.Node) string {
	for _, ip := range cluster.InternalIPs(node) {
		if ip = ip.Unmap(); ip.IsGlobalUnicast() {
			return ip.String()
		}
	}
	return ""
}

// machineIDOf returns the node's machine-id in the API. It returns "" if another node has the same ID, because machines
// cloned from one image share it.
func machineIDOf(node *corev1.Node, all []corev1.Node) string {
	id := node.Status.NodeInfo.MachineID
	shared := func(n corev1.Node) bool { return n.Name != node.Name && n.Status.NodeInfo.MachineID == id }
	if slices.ContainsFunc(all, shared) {
		return ""
	}
	return id
}

// notPlaced reports which access methods failed.
func (r *Run) notPlaced(failed []injector.Failure, snap *cluster.Snapshot) error {
	last := len(failed) - 1
	for last > 0 && failed[last].Skip != "" {
		last--
	}
	unasked := "; the one check on the node did not run; 'calico-probe run --via local' on the node itself runs it"
	switch n := len(r.NodeChecks()); {
	case r.opts.RootShell || r.opts.ForTool:
		unasked = ""
	case errors.Is(failed[last].Err, context.Canceled):
		unasked = "; the checks on the node did not run"
	case n != 1:
		unasked = fmt.Sprintf("; the %d checks on the node did not run; 'calico-probe run --via local' on the node itself runs them", n)
	}
	for i, f := range failed {
		ev := r.eventOf(f, r.client.PodNamespace(snap))
		if i == last {
			ev.Result.Saw += unasked
		}
		if err := r.Add(f.Method, ev); err != nil {
			return err
		}
	}
	return nil
}

// eventOf returns the result of an access method that failed. namespace is the pod's namespace.
func (r *Run) eventOf(f injector.Failure, namespace string) probe.Event {
	switch {
	case f.Skip != "":
		return notTried(f)
	case f.Lost:
		return Unanswered(f.Err)
	case !injector.AccessOf(f.Method).Pods:
		namespace = ""
	}
	return Unplaced(f.Method, namespace, f.Err)
}

// ReportPlaced reports which access method worked, and why earlier ones failed. If the node itself did not start a pod,
// other pods may not start there either: that is a warning, or a fault for a reason that no pod can cause.
func (r *Run) ReportPlaced(p *injector.Placed, snap *cluster.Snapshot) error {
	for _, f := range p.Failed {
		ev := r.eventOf(f, r.client.PodNamespace(snap))
		switch {
		case ev.Result.Status != probe.Unknown:
		case keepsPodsDown(f.Err):
			ev.Result.Status = probe.Fail
		case startsNothing(f.Err):
			ev.Result.Status = probe.Warn
		default:
			ev.Result.Status = probe.Info
		}
		if err := r.Add(f.Method, ev); err != nil {
			return err
		}
	}
	what := "probe running"
	if !injector.AccessOf(p.Method).Covers(injector.TheNode) {
		what = "the kubelet answers"
	}
	placed := probe.Found(probe.OK, "%s after %s: %s", what, p.Took.Round(10*time.Millisecond),
		strings.Join(p.Session.Created(), ", "))
	placed.Check, placed.Target, placed.Elapsed = probe.CheckPlaced, p.Method, p.Took
	if id := p.Session.ImageID(); id != "" {
		placed = placed.With(probe.FactImageID, id)
		if image := r.opts.Image; !r.client.Ours(image) && !strings.Contains(image, "@") {
			r.client.Note("%s: image %s is %s on %s", p.Method, image, id, r.Node)
		}
	}
	return r.Add(p.Method, probe.Event{Type: probe.EventResult, Result: &placed})
}

// close starts to end a session. It reports what could not be removed, under the given name. Run.Wait waits for it.
func (r *Run) close(ctx context.Context, name string, session *injector.Session) {
	r.closing.Go(func() {
		_, end := trace.Span(ctx, "clean up", "of", name)
		defer end()
		if err := probe.Recovered(session.Close); err != nil {
			r.client.Note("%s: cleaning up: %v", name, err)
		}
	})
}

// startsNothing reports whether an access method failed because the node's kubelet or container runtime did not start a
// pod.
func startsNothing(err error) bool {
	pe, ok := errors.AsType[*injector.PlacementError](err)
	return ok && (pe.Reason == facts.ReasonRuntime || pe.Reason == facts.ReasonKubelet)
}

// keepsPodsDown reports whether the kubelet gave a reason for this that no pod can cause.
func keepsPodsDown(err error) bool {
	pe, ok := errors.AsType[*injector.PlacementError](err)
	return ok && pe.Sandbox != nil && pe.Sandbox.OfNode()
}

// notTried returns the result for an access method that was skipped.
func notTried(f injector.Failure) probe.Event {
	res := probe.Found(probe.Skip, "not tried: %s", f.Skip).On(f.Method)
	if f.Reason != "" {
		res = res.With(probe.FactReason, string(f.Reason))
	}
	res.Check = probe.CheckPlaced
	return probe.Event{Type: probe.EventResult, Result: &res}
}

// Unplaced returns the result of an access method that did not place a probe. namespace is the planned pod's namespace,
// if there is one.
func Unplaced(method, namespace string, err error) probe.Event {
	res := probe.Result{Check: probe.CheckPlaced, Target: method, Status: probe.Unknown, Saw: apierror.Explain(err)}
	if namespace != "" {
		res = res.With(probe.FactNamespace, namespace)
	}
	if pe, ok := errors.AsType[*injector.PlacementError](err); ok {
		res = because(res, pe)
	}
	return probe.Event{Type: probe.EventResult, Result: &res}
}

// Unanswered returns the result for a probe whose answer is incomplete.
func Unanswered(err error) probe.Event {
	res := probe.Result{Check: probe.CheckAnswered, Status: probe.Unknown, Saw: apierror.Explain(err)}
	if pe, ok := errors.AsType[*injector.PlacementError](err); ok {
		res = because(res, pe)
	}
	if errors.Is(err, probe.ErrTooMuch) {
		res = res.With(probe.FactReason, probe.ReasonTooMuch)
	}
	return probe.Event{Type: probe.EventResult, Result: &res}
}

// because adds the reason why an access method failed to a result.
func because(res probe.Result, pe *injector.PlacementError) probe.Result {
	res = res.With(probe.FactReason, string(pe.Reason))
	if pe.Answered {
		res = res.With(facts.Answered, true)
	}
	if who := apierror.Refused(pe.Text); who != "" {
		res = res.With(facts.LacksUser, who)
	}
	if said := pe.Sandbox; said != nil {
		res = said.On(res.With(facts.Starts, said.Starts).With(facts.Message, probe.Quoted(said.Message)))
	}
	return res
}

// unfollowed returns the result for a probe that answered its plan but exited before the follow-up checks. This happens
// if the kubelet restarts in between, because a one-shot probe exits when its connection closes. The result has no
// reason: the connection worked before, so the result proves nothing about the access method.
func unfollowed(ids []string, err error) probe.Event {
	return Unanswered(fmt.Errorf("the connection broke after the probe had answered its plan; unanswered: %s (%v)",
		strings.Join(ids, ", "), err))
}

// noAnswerError returns the error for a probe that sent at most its log: it was unreachable, or its output was lost. It
// does not change an error with a more specific reason.
func noAnswerError(ctx context.Context, own []probe.Event, err error) error {
	if _, known := errors.AsType[*injector.PlacementError](err); known || len(own) == 0 || ctx.Err() != nil {
		return err
	}
	text := fmt.Sprintf("the probe runs, but sent no answer: %v", err)
	if last := own[len(own)-1].Text; last != "" {
		text += "; its last output: " + probe.Quoted(last)
	}
	return &injector.PlacementError{Reason: facts.ReasonSilent, Err: err, Text: text}
}
