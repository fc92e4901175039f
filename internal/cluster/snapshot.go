package cluster

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/calico-probe/calico-probe/internal/netpolicy"
	"github.com/calico-probe/calico-probe/internal/suggest"
	"github.com/calico-probe/calico-probe/probe"
)

// readLimit bounds a try of Read as a whole. What is read first may take its share of that:
// one list that hangs must not take the time of what is read after it.
const (
	readLimit  = 15 * time.Second
	firstShare = 8.0 / 15
)

// Snapshot is what the API said of one node at one moment, and of the cluster around it. The checks turn the error of
// a part that could not be read into unknown.
type Snapshot struct {
	Survey
	together bool    // other nodes are judged by themselves: what is wrong with them is not said of this one
	asRead   *Survey // the same before what does not hold for this node was left out

	Now  time.Time // by the API server's clock, when the lease was read
	Read time.Time // that moment by our own clock
	Node *corev1.Node

	lease  Read[*coordinationv1.Lease]
	starts Read[starts] // of the kubelet, lately
	placed placement

	// the node's calico-node pod, verified; nil when there is none, or the error says why that is not known: an
	// *UnverifiedError where pods claim to be it and none is believed
	Calico  Read[*corev1.Pod]
	ignored []corev1.Pod // pods on the node that claim to be it and are not
	startup Read[startup]
	configuration
	access

	ipam    Read[ipam]
	proxy   Read[proxyAccess]
	local   Read[local]
	unready []corev1.Pod // workload pods of a silent node, where the API calls none ready
	probed
}

// configuration is what follows from calico-node's environment and from Felix's settings.
type configuration struct {
	configMaps configMaps           // that its environment is from
	felix      Read[map[string]any] // spec of FelixConfiguration, the node's own over default
	backend    Read[string]         // Calico's networking backend: bird, vxlan, none; "" = not known
	etcd       Read[[]probe.Target] // etcd's, where Calico keeps its data there
}

// UnknownNodeError says that the cluster has no node of that name.
type UnknownNodeError struct {
	Name string
	Have []string // the names there are, the most alike first
	// Removed is when the cluster's controller saw its Node object deleted, and what that event says; without a text
	// where it did not within the hour for which the API keeps events.
	Removed probe.Statement
	now     time.Time
}

func (e *UnknownNodeError) Error() string {
	const few = 5
	have := e.Have
	more := ""
	if len(have) > few {
		have, more = have[:few], ", …"
	}
	have = slices.Sorted(slices.Values(have))
	text := fmt.Sprintf("no node %q in this cluster%s; it has %s%s", e.Name, suggest.DidYouMean(e.Name, e.Have),
		strings.Join(have, ", "), more)
	if e.Removed.Text == "" {
		return text
	}
	return fmt.Sprintf("%s. Its Node object was deleted (event: %s). Its pods are deleted with it, and Calico removes its routes and BGP peers. Where the machine is to stay, find out who deleted the object, then restart its kubelet, which registers the node again",
		text, e.Removed.Aged(e.now))
}

// Read takes a snapshot around one node. An error means that nothing useful
// could be read: the API does not answer, refuses to list nodes, or has no such
// node (*UnknownNodeError).
func (c *Client) Read(ctx context.Context, node string) (*Snapshot, error) {
	s, err := patiently(ctx, c, func(ctx context.Context) (*Snapshot, error) { return c.read(ctx, node, nil) })
	if slow, is := errors.AsType[*slowError](err); is {
		slow.oneNode = true
	}
	return s, err
}

// Beside takes a snapshot around another node of the same cluster. What the API said of the cluster as a whole is not
// read again.
func (c *Client) Beside(ctx context.Context, s *Snapshot, node string) (*Snapshot, error) {
	ctx, cancel := context.WithTimeout(ctx, readLimit)
	defer cancel()
	return c.read(ctx, node, s.asRead)
}

// read takes a snapshot around a node in a cluster, which is read too where it is nil.
func (c *Client) read(whole context.Context, node string, of *Survey) (*Snapshot, error) {
	ctx, cancel := firstOf(whole)
	defer cancel()
	s, c := &Snapshot{}, c.once(whole)
	var all probe.Workers
	var nodes Read[[]corev1.Node]
	if of == nil {
		of = c.newSurvey()
		nodes.start(ctx, &all, c.readNodes)
		c.readShared(ctx, of, &all)
	}
	s.lease.start(ctx, &all, func(ctx context.Context) (*coordinationv1.Lease, error) {
		defer func() { // after a crash too
			s.Read = time.Now()
			s.Now, _ = c.clock.Now()
		}()
		return c.kube.CoordinationV1().Leases(corev1.NamespaceNodeLease).Get(ctx, node, metav1.GetOptions{})
	})
	s.Calico.start(ctx, &all, func(ctx context.Context) (pod *corev1.Pod, err error) {
		pod, s.ignored, err = c.readCalicoPod(ctx, node)
		return pod, err
	})
	all.Go(func() { s.placed = c.readPlaced(ctx, node) })
	all.Wait()
	if nodes.Err != nil {
		return nil, nodes.Err
	}
	if of.Nodes == nil {
		of.Nodes = nodes.Value
	}
	if err := s.around(node, of); err != nil {
		if unknown, is := errors.AsType[*UnknownNodeError](err); is {
			unknown.Removed, unknown.now = c.removed(whole, node), s.Now
		}
		return nil, err
	}
	c.readRest(whole, s)
	return s, nil
}

// readRest reads what to ask for is known once a node's calico-node pod and the cluster are read.
func (c *Client) readRest(ctx context.Context, s *Snapshot) {
	var all probe.Workers
	s.configMaps = c.readConfigMaps(ctx, s.Calico.Value)
	env := s.environment()
	if c = c.asConfigured(env); c.groups[0].Group != groups[0].Group {
		c.readCalico(ctx, &s.resources, &all)
		all.Wait()
		s.memo = newMemo(&s.Survey)
	}
	s.configured(env)
	c.readProbed(ctx, &s.probed, &s.Survey, peers(s, sampled), []corev1.Node{*s.Node}, env, &all)
	s.local.start(ctx, &all, s.readLocal)
	if s.placed.pods.Err == nil {
		s.proxy.start(ctx, &all, func(ctx context.Context) (proxyAccess, error) {
			return c.readProxyAccess(ctx, s.placed.running())
		})
	}
	if KubeletSilent(s) {
		s.unready = slices.DeleteFunc(s.placed.running(), func(p corev1.Pod) bool { return !ownAddress(p) })
	}
	if len(s.placed.waiting.Value) > 0 {
		s.ipam.start(ctx, &all, c.readIPAM)
	}
	c.readWaits(ctx, &s.placed, &all)
	all.Go(func() { c.readAccess(ctx, s) })
	c.readAbsent(ctx, &s.installation, s.Calico.Value == nil && s.Calico.Err == nil, &all)
	s.startup.start(ctx, &all, func(ctx context.Context) (startup, error) { return c.readStart(ctx, s) })
	s.starts.start(ctx, &all, func(ctx context.Context) (starts, error) {
		return c.readStarts(ctx, s.Node.Name, s.Now.Add(-startsCounted))
	})
	all.Wait()
	s.hideEtcd()
	s.forgetRegistered()
}

// hideEtcd makes gaps of what the API has nothing of because Calico keeps it in an etcd
// of its own. A cluster without a single pool would have no pods.
func (s *Snapshot) hideEtcd() {
	if len(s.etcd.Value) == 0 || s.calicoEnv("DATASTORE_TYPE") == "kubernetes" || len(s.pools.Value) > 0 ||
		s.pools.Err != nil {
		return
	}
	s.pools.Err, s.blocks.Err, s.memo = errInEtcd, errInEtcd, nil
	s.peering = peering{Read[specs]{Err: errInEtcd}, Read[specs]{Err: errInEtcd}}
	if len(s.felix.Value) == 0 {
		s.felix.Err = errInEtcd
	}
}

// errInEtcd is why the API has nothing of what Calico keeps in an etcd of its own.
var errInEtcd = errors.New(probe.GapEtcd)

// forgetRegistered drops what is left on Nodes where Calico registers nothing: it is no proof.
func (s *Snapshot) forgetRegistered() {
	if s.unregistered() == "" {
		return
	}
	s.Nodes, s.memo = s.known().unannotated(), nil
	s.Node = &s.Nodes[slices.IndexFunc(s.Nodes, func(n corev1.Node) bool { return n.Name == s.Node.Name })]
}

// readNodes lists all nodes, by name.
func (c *Client) readNodes(ctx context.Context) ([]corev1.Node, error) {
	list, err := c.kube.CoreV1().Nodes().List(ctx, cached)
	if err != nil {
		return nil, fmt.Errorf("listing nodes: %w", err)
	}
	slices.SortFunc(list.Items, func(a, b corev1.Node) int { return strings.Compare(a.Name, b.Name) })
	return list.Items, nil
}

// alike orders the nodes' names by how much of the wanted name they share.
func alike(nodes []corev1.Node, want string) []string {
	score := func(have string) int {
		if strings.Contains(have, want) || strings.Contains(want, have) {
			return 1000
		}
		n := 0
		for n < len(have) && n < len(want) && have[n] == want[n] {
			n++
		}
		return n
	}
	names := make([]string, 0, len(nodes))
	for _, n := range nodes {
		names = append(names, n.Name)
	}
	slices.SortStableFunc(names, func(a, b string) int { return score(b) - score(a) })
	return names
}

// readCalicoPod finds the node's calico-node pod, and those that only claim to be it.
func (c *Client) readCalicoPod(ctx context.Context, node string) (pod *corev1.Pod, ignored []corev1.Pod, err error) {
	list, err := c.kube.CoreV1().Pods(metav1.NamespaceAll).List(ctx, metav1.ListOptions{
		LabelSelector: CalicoPods, FieldSelector: "spec.nodeName=" + node,
	})
	if err != nil {
		return nil, nil, fmt.Errorf("listing calico-node pods: %w", err)
	}
	of, ignored := claimsOf(list.Items, c.calicoIn)
	return of.Value, ignored, of.Err
}

// readPods finds one running pod with an address of its own on each of the nodes.
func (c *Client) readPods(ctx context.Context, nodes []corev1.Node, under netpolicy.Policies,
) (out []corev1.Pod, err error) {
	for _, found := range forEach(nodes, func(node corev1.Node) ([]corev1.Pod, error) {
		running, err := c.Running(ctx, node.Name)
		if err != nil {
			return nil, err
		}
		if fit := pingable(running, 1, under); fit != nil {
			return fit, nil
		}
		return nil, noneReady(&node, running)
	}) {
		out, err = append(out, found.Value...), errors.Join(err, found.Err)
	}
	return out, err
}

// loggedBy is a pod of kube-proxy or CoreDNS as a target whose log is read. What is in kube-system no
// tenant made.
func loggedBy(p *corev1.Pod) (probe.Target, bool) {
	name := map[string]string{"kube-proxy": "kube-proxy", "kube-dns": "coredns"}[p.Labels["k8s-app"]]
	if name == "" || p.Namespace != metav1.NamespaceSystem || metav1.GetControllerOf(p) == nil {
		return probe.Target{}, false
	}
	return probe.Target{Kind: probe.KindLogs, Name: name, Node: p.Spec.NodeName, Host: p.Name,
		Attrs: map[string]string{probe.AttrLogs: p.Namespace + "_" + p.Name + "_" + string(p.UID)}}, true
}

// noneReady says that no pod of a node is ready, nil where there is none, or none is expected to be: of a node that is
// not ready itself.
func noneReady(node *corev1.Node, running []corev1.Pod) error {
	if !slices.ContainsFunc(running, ownAddress) || !readyNow(node) {
		return nil
	}
	return notReady(node.Name)
}

func notReady(node string) error { return fmt.Errorf("no workload pod on node %s is ready", node) }

// Running lists the pods that run on a node.
func (c *Client) Running(ctx context.Context, node string) ([]corev1.Pod, error) {
	ctx, cancel := context.WithTimeout(ctx, readLimit)
	defer cancel()
	return c.podsOn(ctx, node, "status.phase=Running,")
}

// podsOn lists the pods that are bound to a node, those alone of which other fields are true.
func (c *Client) podsOn(ctx context.Context, node, others string) ([]corev1.Pod, error) {
	list, err := c.kube.CoreV1().Pods(metav1.NamespaceAll).List(ctx, metav1.ListOptions{
		FieldSelector: others + "spec.nodeName=" + node, ResourceVersion: "0",
	})
	if err != nil {
		return nil, fmt.Errorf("listing pods of node %s: %w", node, err)
	}
	return list.Items, nil
}

// ownAddress tells whether a pod has an address that is not its node's.
func ownAddress(p corev1.Pod) bool { return !p.Spec.HostNetwork && len(p.Status.PodIPs) > 0 }

// denied tells whether err is the API refusing for lack of rights.
func denied(err error) bool { return apierrors.IsForbidden(err) || apierrors.IsUnauthorized(err) }

// failed reports whether err, or one of the errors it joins, is a call that failed: one that the user may make, and
// that another time may answer.
func failed(err error) bool {
	if all, joined := err.(interface{ Unwrap() []error }); joined {
		return slices.ContainsFunc(all.Unwrap(), failed)
	}
	return err != nil && !denied(err) && !errors.Is(err, errNotWorkedOut)
}
