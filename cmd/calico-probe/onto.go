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
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/calico-probe/calico-probe/cluster"
	"github.com/calico-probe/calico-probe/injector"
	"github.com/calico-probe/calico-probe/install"
	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/probe/facts"
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
func (o *runOptions) askNode(ctx context.Context, snap *cluster.Snapshot, lives func() bool) error {
	steps, err := o.ladder()
	if err != nil {
		return err
	}
	talk := func(way string, session *injector.Session, took time.Duration, said []probe.Event, last bool) (*probe.Event, error) {
		return o.converse(ctx, way, session, snap, took, said, last)
	}
	return o.climb(ctx, steps, snap, lives, talk)
}

// climb tries one way after the other. lives tells, when none worked, whether the node
// gives any sign of life. talk has the conversation with a probe that runs; where
// nothing is heard from it, that is returned, unless it is the last there is.
func (o *runOptions) climb(ctx context.Context, steps []rung, snap *cluster.Snapshot, lives func() bool,
	talk func(way string, session *injector.Session, took time.Duration, said []probe.Event, last bool) (*probe.Event, error),
) error {
	if snap != nil && steps[0].name != wayLocal {
		if why := unlike(snap.Node); why != "" {
			refused := &injector.PlacementError{Reason: facts.ReasonSupport, Text: why + ": only the API was asked"}
			return o.emit(steps[0].name, unplaced(steps[0].name, "", refused))
		}
	}
	silent := snap != nil && (cluster.KubeletSilent(snap) || cluster.RuntimeDown(snap))
	var before []tried
	var said []probe.Event
	for i := 0; ctx.Err() == nil; i++ {
		if i == len(steps) {
			again, worth := onceMore(steps, before)
			if !worth || !lives() {
				break
			}
			if again.name == before[0].way {
				before[0].early = false
			}
			said = slices.DeleteFunc(said, func(ev probe.Event) bool { return ev.Way == again.name })
			steps = append(steps, again)
		}
		step := steps[i]
		a := attemptOf(step, len(steps) > 1, before, silent)
		if o.startTimeout > 0 { // all the time there is, so that nothing is given up early
			a.start, a.idle = o.startTimeout, 0
		}
		if a.skip != "" {
			said = append(said, notTried(step.name, a))
			continue
		}
		began := time.Now()
		o.progress("%s: putting a probe on %s", step.name, o.node)
		opts := o.placement(step.name, snap, a)
		if step.patient { // what the first time made may still be ending
			opts.Run = newRunID()
		}
		session, err := step.open(ctx, opts)
		if err == nil {
			var lost *probe.Event
			last := i+1 == len(steps) && (len(before) == 0 || !before[0].early)
			lost, err = talk(step.name, session, time.Since(began), said, last)
			if lost == nil {
				return err
			}
			said = append(said, *lost)
			reason := facts.Reason(lost.Result.Facts.Str(probe.FactReason))
			before = append(before, tried{way: step.name, reason: reason, mute: opts.Image})
			continue
		}
		if err := o.wrongNamespace(err); err != nil {
			return err
		}
		namespace := ""
		if step.name == wayPod {
			namespace = o.namespace(snap)
		}
		ev := unplaced(step.name, namespace, err)
		o.progress("%s: %s", step.name, ev.Result.Saw)
		said = append(said, ev)
		before = append(before, refusalOf(step, err, time.Since(began), a))
	}
	return o.notOnto(said)
}

// sshNone is the --ssh that keeps ssh out of the ladder.
const sshNone = "none"

// destination is where ssh is to go: what the user says, else the node's address.
func (o *runOptions) destination(node *corev1.Node) string {
	ip := internalIP(node)
	if ip == "" && (o.ssh == "" || strings.Contains(o.ssh, "{ip}")) {
		return ""
	}
	return strings.NewReplacer("{node}", node.Name, "{ip}", ip).Replace(cmp.Or(o.ssh, "{ip}"))
}

// internalIP is the first InternalIP of a node that another machine can have, "" = none.
// The kubelet writes that status: what is no IP address would be a user, a host or a
// terminal's escapes of its own choice.
func internalIP(node *corev1.Node) string {
	for _, ip := range cluster.InternalIPs(node) {
		if ip = ip.Unmap(); ip.IsGlobalUnicast() {
			return ip.String()
		}
	}
	return ""
}

// machineOf is the machine-id that the API has of a node, "" where another node has the
// same: machines made from one image are not told apart by it.
func machineOf(node *corev1.Node, all []corev1.Node) string {
	id := node.Status.NodeInfo.MachineID
	shared := func(n corev1.Node) bool { return n.Name != node.Name && n.Status.NodeInfo.MachineID == id }
	if slices.ContainsFunc(all, shared) {
		return ""
	}
	return id
}

func (o *runOptions) placement(way string, snap *cluster.Snapshot, a attempt) injector.Options {
	opts := injector.Options{
		Node: o.node, Namespace: o.namespace(snap), Image: o.image, PullSecret: o.pullSecret, Run: o.id,
		Who: whoami(), Reason: o.reason, Checks: o.nodeChecks(), Needed: probe.Capabilities(o.picked), Privileged: o.privileged,
		Start: a.start, Idle: a.idle, Whole: o.timeout, SSHConfig: o.sshConfig, Keep: o.keep, Shell: o.forShell,
		Progress: func(text string) { o.progress("%s: %s", way, text) },
		Note:     func(text string) { o.note("%s: %s", way, text) },
	}
	if snap != nil {
		opts.Calico, opts.CalicoErr = snap.Calico, snap.CalicoErr
		// The API has answered: other ways through it are worth a try.
		if errors.As(snap.CalicoErr, new(*cluster.UnverifiedError)) {
			opts.CalicoErr = injector.NoCalico(snap.CalicoErr)
		}
		opts.Arch = snap.Node.Status.NodeInfo.Architecture
		opts.Carried = carriedProbe(opts.Arch)
		opts.Destination, opts.Named = o.destination(snap.Node), o.ssh != "" && !strings.Contains(o.ssh, "{ip}")
		opts.Machine = machineOf(snap.Node, snap.Nodes)
		opts.Running = func(ctx context.Context) ([]corev1.Pod, error) { return o.runningOn(ctx, snap.Node.Name) }
	}
	return opts
}

// runningOn lists the pods that run on a node, for the way that goes into one.
func (o *runOptions) runningOn(ctx context.Context, node string) ([]corev1.Pod, error) {
	client, err := o.cluster()
	if err != nil {
		return nil, err
	}
	return client.Running(ctx, node)
}

// namespace is where the probe pod goes: where the user says, else beside
// calico-node, whose namespace must admit privileged pods, unless it was seen not to.
func (o *runOptions) namespace(snap *cluster.Snapshot) string {
	switch {
	case o.namedNamespace():
		return *o.flags.Namespace
	case o.elsewhere.Load():
		return install.Namespace
	case snap != nil:
		return beside(snap.Calico)
	}
	return beside(nil)
}

// beside is the namespace of calico-node's pod, which is verified; nil = there is none that
// is known. What only claims to be that pod never says where a privileged one goes.
func beside(calico *corev1.Pod) string {
	if calico == nil {
		return metav1.NamespaceSystem
	}
	return calico.Namespace
}

func (o *runOptions) namedNamespace() bool {
	return o.flags.Namespace != nil && *o.flags.Namespace != ""
}

// podOrElsewhere is the way of a pod that goes into the namespace of 'manifests' where the
// user named none and the one beside calico-node refuses it: who has what 'manifests' prints
// may make it there and nowhere else, and the next way takes more. The one that took it is
// asked first from then on.
func (o *runOptions) podOrElsewhere(open injector.Way) injector.Way {
	return func(ctx context.Context, opts injector.Options) (*injector.Session, error) {
		session, err := open(ctx, opts)
		refused := refusedByNamespace(err)
		if refused != nil && o.namedNamespace() {
			if refused.Reason == facts.ReasonRBAC && opts.Namespace != install.Namespace {
				err = refused.And("where 'manifests' was applied, it is -n " + install.Namespace)
			}
			return nil, err
		}
		first, other := opts.Namespace, install.Namespace
		if first == other {
			other = beside(opts.Calico)
		}
		if refused == nil || first == other {
			return session, err
		}
		opts.Namespace = other
		session, err = open(ctx, opts)
		there, _ := errors.AsType[*injector.PlacementError](err)
		switch {
		case refusedByNamespace(err) != nil:
			name, why := other, there.Text
			if other == install.Namespace {
				name += ", which 'calico-probe manifests' prints"
			}
			if there.Reason == facts.ReasonRBAC {
				why = "no right there either"
			}
			return nil, refused.And("nor in namespace " + name + ": " + why)
		case err != nil && (there == nil || !slices.Contains(admitted, there.Reason)): // nobody knows whether it takes it
			before := "and namespace " + first + " does not take it: " + refused.Text
			if there == nil {
				return nil, fmt.Errorf("%w; %s", err, before)
			}
			return nil, there.And(before)
		case o.elsewhere.Swap(other == install.Namespace) != (other == install.Namespace):
			o.note("%s: namespace %s does not take it (%s), so it goes into %s", wayPod, first, refused.Reason, other)
		}
		return session, err
	}
}

// wrongNamespace is what is wrong with the namespace that the user named for the pod, which
// no other way mends; nil = nothing is.
func (o *runOptions) wrongNamespace(err error) error {
	pe, refused := errors.AsType[*injector.PlacementError](err)
	switch {
	case !refused || pe.Reason != facts.ReasonNamespace || !o.namedNamespace():
		return nil
	case apierrors.IsNotFound(pe.Err):
		name := *o.flags.Namespace
		return badUsage("there is no namespace %q: leave out -n, or 'calico-probe manifests -n %s' prints it", name, name)
	case strings.Contains(pe.Text, "being terminated"):
		return badUsage("namespace %q is being deleted: leave out -n, or name another", *o.flags.Namespace)
	}
	return nil // kube-controller-manager, perhaps, has not made what a pod needs there
}

// admitted are the reasons for which a pod comes to nothing that a namespace has taken.
var admitted = []facts.Reason{
	facts.ReasonImage, facts.ReasonKubelet, facts.ReasonRejected, facts.ReasonRuntime, facts.ReasonAttach, facts.ReasonSilent,
}

// refusedByNamespace is the refusal of a pod that another namespace might admit, else nil.
func refusedByNamespace(err error) *injector.PlacementError {
	pe, _ := errors.AsType[*injector.PlacementError](err)
	if pe != nil && slices.Contains([]facts.Reason{facts.ReasonRBAC, facts.ReasonAdmission, facts.ReasonQuota, facts.ReasonNamespace}, pe.Reason) {
		return pe
	}
	return nil
}

// note says what the user must know on any stream.
func (o *runOptions) note(format string, args ...any) { say(o.ErrOut, format, args...) }
