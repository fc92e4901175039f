package preflight

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"slices"
	"strings"

	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/calico-probe/calico-probe/injector"
	"github.com/calico-probe/calico-probe/internal/cluster"
	"github.com/calico-probe/calico-probe/internal/examine"
	suiteapi "github.com/calico-probe/calico-probe/internal/subject/suite/api"
	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/probe/facts"
)

// ofMethod tests one access method, except for its rights.
func (p *Preflight) ofMethod(ctx context.Context, method string) []probe.Event {
	if method == useClean || method == useServe { // they need only rights
		return nil
	}
	o := p.run.Placement(method, p.snap)
	if why := cluster.NoProbeOn(p.snap.Node); why != "" && injector.AccessOf(method).EntersNode() {
		return []probe.Event{answerOf(method, askNode, probe.Found(probe.Fail, "%s: name another node with --node", why))}
	}
	if r, held := suiteapi.StartsNothing(p.snap); held && slices.Contains([]string{injector.MethodPod, useShell,
		injector.MethodEphemeral, injector.MethodExec}, method) {
		if method == injector.MethodExec { // starts no container: works if the kubelet is cut off from the API
			r.Status = probe.Unknown
		}
		return []probe.Event{answerOf(method, askNode, r)}
	}
	switch method {
	case injector.MethodOutside:
		near := cluster.BaselineNodes(p.snap, 1, nil)
		if len(near) == 0 {
			return []probe.Event{answerOf(method, askAdmission, probe.Found(probe.Fail, "no other node is ready to test %s from", p.opts.Node))}
		}
		o.Node = near[0].Name
		return p.ofPods(ctx, o, near[0], method)
	case injector.MethodPod, useShell:
		return p.ofPods(ctx, o, p.snap.Node, method)
	case injector.MethodEphemeral:
		return p.ofEphemeral(ctx, o)
	case injector.MethodExec:
		return []probe.Event{answerOf(method, askEmbedded, hasEmbedded(o.Embedded, o.Arch)),
			answerOf(method, askContainer, p.container(ctx))}
	case injector.MethodKubelet:
		return p.kubelet(ctx)
	case injector.MethodSSH:
		return []probe.Event{answerOf(method, askEmbedded, hasEmbedded(o.Embedded, o.Arch)),
			answerOf(method, askSSH, p.login(ctx, o))}
	}
	return nil
}

// awaited describes an access method and the answer for which its test waits.
func (p *Preflight) awaited(method string) string {
	what := ""
	switch method {
	case injector.MethodPod, injector.MethodOutside, useShell:
		what = "dry run of a pod"
	case injector.MethodEphemeral:
		what = "dry run of a container"
	case injector.MethodExec:
		what = "list of containers"
	case injector.MethodKubelet:
		what = "answer of the kubelet"
	case injector.MethodSSH:
		what = "host key"
		if p.asksSSH() {
			what = "login"
		}
	default:
		return method
	}
	return fmt.Sprintf("%s (%s)", method, what)
}

// rehearse does a dry run of the pod that a run would create. It returns the namespace that it tried last.
func (p *Preflight) rehearse(ctx context.Context, o injector.Options) (namespace string, err error) {
	_, err = p.client.InEitherNamespace(func(ctx context.Context, o injector.Options) (*injector.Session, error) {
		namespace = o.Namespace
		return nil, p.writer.RehearsePod(ctx, o)
	})(ctx, o)
	return namespace, err
}

// makesPods reports whether a use needs its rights in the namespace of probe pods.
func makesPods(use string) bool {
	return injector.AccessOf(use).Pods || use == useShell || use == useClean
}

// ofPods does a dry run of the pods that an access method creates, and of the job that removes them.
func (p *Preflight) ofPods(ctx context.Context, o injector.Options, node *corev1.Node, method string) []probe.Event {
	var err error
	o.Namespace, err = p.rehearse(ctx, o)
	r := rehearsed(err, "a pod in namespace "+o.Namespace+" is admitted")
	if method == useShell && err == nil {
		root := o
		root.Shell = true
		root.Namespace, err = p.rehearse(ctx, root)
		if r = rehearsed(err, r.Saw+", and so is the privileged pod of 'sh' in namespace "+root.Namespace); err != nil {
			r.Saw = "the privileged pod of 'sh': " + r.Saw
		}
	}
	if r.Status == probe.OK {
		if err := p.writer.RehearseJob(ctx, o); err != nil {
			r.Status, r.Saw = probe.Warn, r.Saw+", but its clean-up job is not: "+why(err)
		}
	}
	return []probe.Event{answerOf(method, askAdmission, r), answerOf(method, askImage, imageOn(node, o.Image))}
}

// ofEphemeral does a dry run of the ephemeral container in the node's calico-node pod.
func (p *Preflight) ofEphemeral(ctx context.Context, o injector.Options) []probe.Event {
	if p.snap.Calico.Value == nil {
		r := probe.Found(probe.Fail, "node %s has no calico-node pod to join", p.opts.Node)
		if p.snap.Calico.Err != nil {
			r = probe.Found(probe.Unknown, "calico-node pod on node %s unknown", p.opts.Node)
		}
		return []probe.Event{answerOf(injector.MethodEphemeral, askAdmission, r)}
	}
	admitted := "an ephemeral container in pod " + p.snap.Calico.Value.Namespace + "/" + p.snap.Calico.Value.Name + " is admitted"
	return []probe.Event{
		answerOf(injector.MethodEphemeral, askAdmission, rehearsed(p.writer.RehearseEphemeral(ctx, o), admitted)),
		answerOf(injector.MethodEphemeral, askImage, imageOn(p.snap.Node, o.Image)),
	}
}

// container reports which of the node's containers access method exec could use.
func (p *Preflight) container(ctx context.Context) probe.Result {
	running, err := p.reader.Running(ctx, p.snap.Node.Name)
	if err != nil {
		return probe.Found(probe.Unknown, "containers on node %s unknown: %s", p.opts.Node, why(err))
	}
	targets := injector.ExecTargets(running, p.snap.Calico.Value)
	if len(targets) == 0 {
		return probe.Found(probe.Fail, "%s", injector.NoExecTarget(p.opts.Node, p.snap.Calico.Value))
	}
	var asks []authorizationv1.ResourceAttributes
	for _, d := range targets {
		asks = append(asks, authorizationv1.ResourceAttributes{Namespace: namespaceOf(d), Verb: "create",
			Resource: "pods", Subresource: "exec"})
	}
	may, err := p.reader.May(ctx, asks)
	if err != nil {
		return probe.Found(probe.Unknown, "%s", why(err))
	}
	return enterable(targets, may)
}

func namespaceOf(target string) string {
	namespace, _, _ := strings.Cut(target, "/")
	return namespace
}

// enterable reports which container, as NAMESPACE/POD/CONTAINER, access method exec would use: the first that the user
// has permission to enter. If calico-node does not run, other namespaces also have candidates.
func enterable(targets []string, may []bool) probe.Result {
	if i := slices.Index(may, true); i >= 0 {
		return probe.Found(probe.Unknown, "container %s exists; shell untested: a run tests it", targets[i])
	}
	var lack []string
	for _, d := range targets {
		if namespace := namespaceOf(d); !slices.Contains(lack, namespace) {
			lack = append(lack, namespace)
		}
	}
	return probe.Found(probe.Fail, "no right to create pods/exec in namespace %s: %s --methods exec --calico-namespace %s",
		strings.Join(lack, " or "), applyOutput, probe.Quote(lack[0]))
}

// rehearsed converts the API server's response to a dry run into a result.
func rehearsed(err error, good string) probe.Result {
	pe, refused := errors.AsType[*injector.PlacementError](err)
	switch {
	case err == nil:
		return probe.Found(probe.OK, "%s", good)
	// possibly a webhook without support for dry runs
	case refused && pe.Reason == facts.ReasonAPI, refused && pe.Reason == facts.ReasonSupport, !refused:
		return probe.Found(probe.Unknown, "inconclusive dry run: %s", why(err))
	}
	r := probe.Found(probe.Fail, "%s", why(err)).With(probe.FactReason, string(pe.Reason))
	if pe.Reason == facts.ReasonNamespace {
		if gone, ok := errors.AsType[*apierrors.StatusError](pe.Err); ok && apierrors.IsNotFound(gone) &&
			gone.ErrStatus.Details != nil {
			r.Saw = fmt.Sprintf("namespace %q does not exist", gone.ErrStatus.Details.Name)
		}
		r.Saw += "; 'calico-probe manifests' prints a namespace that admits probes"
	}
	return r
}

// listed is the number of images that a kubelet reports by default (nodeStatusMaxImages). A list with this length may
// be incomplete.
const listed = 50

func imageOn(node *corev1.Node, image string) probe.Result {
	if slices.ContainsFunc(node.Status.Images,
		func(i corev1.ContainerImage) bool { return slices.Contains(i.Names, asListed(image)) }) {
		return probe.Found(probe.OK, "%s is on node %s", image, node.Name)
	}
	if n := len(node.Status.Images); n >= listed {
		return probe.Found(probe.Unknown, "%s is not among the %d images that the kubelet of %s lists, but the list may be incomplete: a run shows whether the node can pull it", image, n, node.Name)
	}
	return probe.Found(probe.Unknown, "%s is not on node %s yet: a run shows whether the node can pull it", image, node.Name)
}

// asListed returns the name under which a kubelet lists an image. Container runtimes omit the tag if there is a digest.
func asListed(image string) string {
	name, digest, byDigest := strings.Cut(image, "@")
	if !byDigest {
		return image
	}
	if colon := strings.LastIndex(name, ":"); colon > strings.LastIndex(name, "/") { // otherwise this is a registry's port
		name = name[:colon]
	}
	return name + "@" + digest
}

// kubelet checks whether the node's kubelet answers, and which logs it serves.
func (p *Preflight) kubelet(ctx context.Context) []probe.Event {
	kubelet, err := p.client.Kubelet(p.opts.Node)
	if err == nil {
		if _, bad := kubelet.Greet(ctx); bad != nil {
			err = examine.Ungreeted(bad)
		}
	}
	if err != nil {
		return []probe.Event{answerOf(injector.MethodKubelet, askKubelet, probe.Found(probe.Fail, "%s", why(err)))}
	}
	logs := probe.Found(probe.OK, "it serves the services' journal, and files below /var/log")
	switch files, lines := kubelet.OffersLogs(ctx); {
	case files != nil:
		logs = probe.Found(probe.Warn, "it works, but without logs: %s", why(files))
	case lines != nil:
		logs = probe.Found(probe.Info, "only files below /var/log, including the journal there: %s", why(lines))
	}
	return []probe.Event{answerOf(injector.MethodKubelet, askKubelet, probe.Found(probe.OK, "the kubelet answers through the API server")),
		answerOf(injector.MethodKubelet, askLogs, logs)}
}

func hasEmbedded(packed []byte, arch string) probe.Result {
	if len(packed) == 0 {
		return probe.Found(probe.Fail, "this client has no embedded probe for %s: use a release, or build it with 'make build'", arch)
	}
	return probe.Found(probe.OK, "this client has an embedded probe for %s (%d KB)", arch, len(packed)>>10)
}

// If the user requested ssh, login logs in over ssh as a run does. Otherwise it checks only ssh's configuration and
// does not connect, because most nodes are unreachable over ssh, and an attempt would take ten seconds.
func (p *Preflight) login(ctx context.Context, o injector.Options) probe.Result {
	if p.asksSSH() && len(o.Embedded) > 0 {
		if err := injector.RehearseSSH(ctx, o); err != nil {
			return probe.Found(probe.Fail, "%s", why(err))
		}
		return probe.Found(probe.OK, "logged in to %s", o.Destination)
	}
	if _, err := exec.LookPath("ssh"); err != nil {
		return probe.Found(probe.Fail, "the program ssh is not installed: install OpenSSH's client")
	}
	if err := injector.HostKeyKnown(ctx, o); err != nil {
		return probe.Found(probe.Fail, "%s", probe.OneLine(err.Error()))
	}
	return probe.Found(probe.Info, "the host key of %s is known; --via ssh tries to log in", o.Destination)
}

// asksSSH reports whether the user requested ssh or named its destination.
func (p *Preflight) asksSSH() bool {
	return slices.Contains(p.named, injector.MethodSSH) || p.opts.SSH != ""
}
