package examine

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"github.com/calico-probe/calico-probe/injector"
	"github.com/calico-probe/calico-probe/internal/cluster"
	"github.com/calico-probe/calico-probe/internal/install"
	"github.com/calico-probe/calico-probe/internal/trace"
	"github.com/calico-probe/calico-probe/internal/ui"
	"github.com/calico-probe/calico-probe/probe"
	"github.com/calico-probe/calico-probe/probe/facts"
)

// Config is a verb's configuration of the cluster and of this program.
type Config struct {
	Rest    func() (*rest.Config, error)     // how to reach the API server
	Cluster func() (*probe.Cluster, error)   // which cluster that is, for reports
	Probe   func(architecture string) []byte // the embedded probe for an architecture; nil = none
	Ours    func(image string) bool          // reports whether an image belongs to this release

	Verbose bool // writes progress to any stream, on permanent lines

	Namespace       string // namespace of probe pods; "" = calico-node's namespace
	CalicoNamespace string // trust calico-node only in this namespace; "" = the usual namespaces

	// Consent is called before probes are placed on more than MaxWithoutConsent nodes. An error means that the user
	// refuses. nil = always refuse.
	Consent func(ctx context.Context, nodes int) error
}

// Client holds what all of a program's examinations share: the cluster, and the stream for messages to the user.
type Client struct {
	Config
	messages io.Writer
	quiet    bool
	began    time.Time
	// installed is set once calico-node's namespace has refused a pod that the namespace from 'manifests' accepted.
	installed *atomic.Bool
}

// NewClient returns a Client that writes messages to a writer.
func NewClient(config Config, messages io.Writer) *Client {
	return &Client{Config: config, messages: messages, began: time.Now(), installed: new(atomic.Bool)}
}

// Agree returns an error unless the user permits probes on this number of nodes.
func (c *Client) Agree(ctx context.Context, nodes int) error {
	switch {
	case nodes <= MaxWithoutConsent:
		return nil
	case c.Consent == nil:
		return fmt.Errorf("this would place probes on %d nodes: the limit without confirmation is %d", nodes, MaxWithoutConsent)
	}
	return c.Consent(ctx, nodes)
}

// Writing returns the same Client with messages to another writer.
func (c *Client) Writing(messages io.Writer) *Client {
	own := *c
	own.messages = messages
	return &own
}

// Quiet returns the same Client without progress.
func (c *Client) Quiet() *Client {
	own := *c
	own.quiet = true
	return &own
}

// Busy returns the same Client with a request rate for many nodes. The rate drops when the API server asks for it.
func (c *Client) Busy() *Client {
	const perSecond = 300
	own, pace := *c, &pacer{}
	own.Rest = func() (*rest.Config, error) {
		config, err := c.Rest()
		if err != nil {
			return nil, err
		}
		config = rest.CopyConfig(config)
		config.QPS, config.Burst = perSecond, perSecond
		config.Wrap(pace.transport)
		return config, nil
	}
	return &own
}

// Progress writes a line for a person who waits. With Verbose each line begins with the time since the program began.
func (c *Client) Progress(format string, args ...any) {
	if c.Verbose && !c.quiet {
		c.Note("%6.2fs  %s", time.Since(c.began).Seconds(), fmt.Sprintf(format, args...))
		return
	}
	if ui.IsTerminal(c.messages) && !c.quiet {
		ui.Progress(c.messages, format, args...)
	}
}

// Note writes a line that the user needs, whatever the stream is.
func (c *Client) Note(format string, args ...any) { ui.Say(c.messages, format, args...) }

// Reader returns a client that reads the API.
func (c *Client) Reader() (*cluster.Client, error) {
	config, err := c.Rest()
	if err != nil {
		return nil, err
	}
	client, err := cluster.NewClient(config, c.CalicoNamespace)
	if err != nil {
		return nil, err
	}
	client.Slow = func(waited, more time.Duration) {
		c.Note("the API server is slow: no answer for %s; waiting up to %s more", probe.Age(waited), probe.Age(more))
	}
	return client, nil
}

// Resolve replaces an address in o.Node with the name of its node. If no node has the address, it keeps the address:
// the next step, reading the cluster, reports the address and the existing names.
func (c *Client) Resolve(ctx context.Context, o *Options) error {
	addr, err := netip.ParseAddr(o.Node)
	if err != nil || o.access().Here() {
		return nil
	}
	reader, err := c.Reader()
	if err != nil {
		return err
	}
	switch names, err := reader.NodesAt(ctx, addr); {
	case err != nil:
		return err
	case len(names) > 1:
		return ui.BadUsage("%s have the address %s: choose one with --node", strings.Join(names, " and "), o.Node)
	case len(names) == 1:
		c.Note("%s is node %s, according to its kubelet", o.Node, names[0])
		o.Node = names[0]
	}
	return nil
}

// ClusterOf returns the run's cluster. It returns nil if the access method does not use the API.
func (c *Client) ClusterOf(o Options) (*probe.Cluster, error) {
	if o.access().Here() {
		return nil, nil
	}
	return c.Cluster()
}

// Read reads the node from the API. It returns nil if the access method does not use the API.
func (c *Client) Read(ctx context.Context, o Options) (*cluster.Client, *cluster.Snapshot, error) {
	if o.access().Here() {
		return nil, nil, nil
	}
	client, err := c.Reader()
	if err != nil {
		return nil, nil, err
	}
	c.Progress("reading %s from the API", o.Node)
	reading, end := trace.Span(ctx, "read the API")
	defer end()
	snap, err := client.Read(reading, o.Node)
	if err != nil {
		return nil, nil, NoSuchNode(err)
	}
	return client, snap, nil
}

// NoSuchNode turns an unknown node into a usage error.
func NoSuchNode(err error) error {
	if _, ok := err.(*cluster.UnknownNodeError); ok {
		return ui.BadUsage("%w", err)
	}
	return err
}

// Writer returns a client that writes to the API.
func (c *Client) Writer() (*injector.Client, error) {
	config, err := c.Rest()
	if err != nil {
		return nil, err
	}
	return injector.NewClient(config)
}

// runningOn lists a node's running pods, for access method exec.
func (c *Client) runningOn(ctx context.Context, node string) ([]corev1.Pod, error) {
	client, err := c.Reader()
	if err != nil {
		return nil, err
	}
	return client.Running(ctx, node)
}

// PodNamespace returns the namespace of the probe pod. This is the user's choice, or else calico-node's namespace,
// which must admit privileged pods, unless that namespace already refused one.
func (c *Client) PodNamespace(snap *cluster.Snapshot) string {
	switch {
	case c.Namespace != "":
		return c.Namespace
	case c.installed.Load():
		return install.Namespace
	case snap != nil:
		return namespaceOf(snap.Calico.Value)
	}
	return namespaceOf(nil)
}

// namespaceOf returns the namespace of calico-node's verified pod, or "" if there is none. A pod that only claims to be
// calico-node never decides where a privileged pod is created.
func namespaceOf(calico *corev1.Pod) string {
	if calico == nil {
		return metav1.NamespaceSystem
	}
	return calico.Namespace
}

// InEitherNamespace adds a fallback to access method pod: if the user did not choose a namespace and calico-node's
// namespace refuses the pod, it uses the namespace from 'manifests'. A user who has only the rights from 'manifests'
// cannot create pods anywhere else, and the next access method needs more rights. After a fallback, the namespace from
// 'manifests' comes first.
func (c *Client) InEitherNamespace(open injector.Open) injector.Open {
	return func(ctx context.Context, opts injector.Options) (*injector.Session, error) {
		session, err := open(ctx, opts)
		refused := refusedByNamespace(err)
		if refused != nil && c.Namespace != "" {
			if refused.Reason == facts.ReasonRBAC && opts.Namespace != install.Namespace {
				err = refused.And("if 'manifests' was applied, use -n " + install.Namespace)
			}
			return nil, err
		}
		first, other := opts.Namespace, install.Namespace
		if first == other {
			other = namespaceOf(opts.Calico)
		}
		if refused == nil || first == other {
			return session, err
		}
		opts.Namespace = other
		session, err = open(ctx, opts)
		if both := bothRefused(refused, first, err, other); both != nil {
			return nil, both
		}
		if c.installed.Swap(other == install.Namespace) != (other == install.Namespace) {
			c.Note("%s: namespace %s rejects it (%s), so it goes into %s", injector.MethodPod, first, refused.Reason, other)
		}
		return session, err
	}
}

// bothRefused returns the error for a pod that both namespaces refused. It returns nil if the other namespace accepted
// the pod, even if the pod failed there later.
func bothRefused(refused *injector.PlacementError, first string, err error, other string) error {
	there, _ := errors.AsType[*injector.PlacementError](err)
	before := "and namespace " + first + " rejects it: " + refused.Text
	switch {
	case err == nil || there != nil && slices.Contains(admitted(), there.Reason):
		return nil
	case refusedByNamespace(err) != nil:
		name, why := other, there.Text
		if other == install.Namespace {
			name += ", which 'calico-probe manifests' prints"
		}
		if there.Reason == facts.ReasonRBAC {
			why = "no right there either"
		}
		return refused.And("nor in namespace " + name + ": " + why)
	case there == nil: // it is unknown whether the namespace admits the pod
		return fmt.Errorf("%w; %s", err, before)
	}
	return there.And(before)
}

// admitted returns the reasons why a pod can fail after a namespace has admitted it.
func admitted() []facts.Reason {
	return []facts.Reason{
		facts.ReasonImage, facts.ReasonKubelet, facts.ReasonRejected, facts.ReasonRuntime, facts.ReasonAttach,
		facts.ReasonSilent, facts.ReasonNoAuthorizer,
	}
}

// refusedByNamespace returns the refusal if another namespace might admit the pod, otherwise nil.
func refusedByNamespace(err error) *injector.PlacementError {
	ofNamespace := []facts.Reason{facts.ReasonRBAC, facts.ReasonAdmission, facts.ReasonQuota, facts.ReasonNamespace}
	pe, _ := errors.AsType[*injector.PlacementError](err)
	if pe != nil && slices.Contains(ofNamespace, pe.Reason) {
		return pe
	}
	return nil
}

// wrongNamespace returns an error if the user's pod namespace is wrong, because other access methods would not help.
// nil = it is valid.
func (c *Client) wrongNamespace(err error) error {
	pe, refused := errors.AsType[*injector.PlacementError](err)
	switch {
	case !refused || pe.Reason != facts.ReasonNamespace || c.Namespace == "":
		return nil
	case apierrors.IsNotFound(pe.Err):
		return ui.BadUsage("namespace %q does not exist: omit -n, or create it: 'calico-probe manifests -n %s' prints the manifest", c.Namespace, c.Namespace)
	case strings.Contains(pe.Text, "being terminated"):
		return ui.BadUsage("namespace %q is being deleted: omit -n, or name another namespace", c.Namespace)
	}
	return nil // kube-controller-manager may not have created the pod's prerequisites there yet
}
