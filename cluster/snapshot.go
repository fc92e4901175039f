package cluster

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/calico-probe/calico-probe/probe"
)

// readLimit bounds Read as a whole.
const readLimit = 15 * time.Second

// Snapshot is what the API said at one moment. A part that could not be read is
// nil and has its reason in the matching error; the checks turn that into
// unknown.
type Snapshot struct {
	Now   time.Time // by the API server's clock, when the lease was read
	Read  time.Time // that moment by our own clock
	Node  *corev1.Node
	Nodes []corev1.Node // all of them, Node included, by name

	Lease    *coordinationv1.Lease
	LeaseErr error

	Calico    *corev1.Pod // the node's calico-node pod, nil when there is none
	CalicoErr error

	Pods    []corev1.Pod // one running workload pod on each sampled peer
	PodsErr error

	felix      map[string]any // spec of FelixConfiguration, the node's own over default
	felixErr   error
	api        []probe.Target // the API server's service and each endpoint
	apiErr     error
	dns        []probe.Target // the cluster's DNS, likewise
	dnsErr     error
	blocks     []block
	blockErr   error
	bgp        map[string]any // spec of BGPConfiguration, likewise
	bgpErr     error
	peering    peering
	peeringErr error
	info       map[string]any // spec of ClusterInformation
	infoErr    error
	backendErr error
	backend    string // Calico's networking backend: bird, vxlan, none; "" = not known
}

// UnknownNodeError says that the cluster has no node of that name.
type UnknownNodeError struct {
	Name string
	Have []string // the names there are, the most alike first
}

func (e *UnknownNodeError) Error() string {
	const few = 5
	have := e.Have
	more := ""
	if len(have) > few {
		have, more = have[:few], ", …"
	}
	return fmt.Sprintf("no node %q in this cluster; it has %s%s", e.Name, strings.Join(have, ", "), more)
}

// Read takes a snapshot around one node. An error means that nothing useful
// could be read: the API does not answer, refuses to list nodes, or has no such
// node (*UnknownNodeError).
func (c *Client) Read(ctx context.Context, node string) (*Snapshot, error) {
	ctx, cancel := context.WithTimeout(ctx, readLimit)
	defer cancel()
	s := &Snapshot{}
	var nodesErr error
	var all sync.WaitGroup
	all.Go(func() { nodesErr = c.readNodes(ctx, s, node) })
	all.Go(func() {
		s.Lease, s.LeaseErr = c.kube.CoordinationV1().Leases(corev1.NamespaceNodeLease).Get(ctx, node, metav1.GetOptions{})
		if s.LeaseErr != nil {
			s.Lease = nil
		}
		s.Now, s.Read = c.clock.now(), time.Now()
	})
	all.Go(func() { s.Calico, s.CalicoErr = c.readCalicoPod(ctx, node) })
	all.Go(func() { s.felix, s.felixErr = c.readSpec(ctx, "felixconfigurations", "default", "node."+node) })
	all.Go(func() { s.bgp, s.bgpErr = c.readSpec(ctx, "bgpconfigurations", "default", "node."+node) })
	all.Go(func() { s.peering, s.peeringErr = c.readPeering(ctx) })
	all.Go(func() { s.api, s.apiErr = c.readAPI(ctx) })
	all.Go(func() { s.dns, s.dnsErr = c.readDNS(ctx) })
	all.Go(func() { s.blocks, s.blockErr = c.readBlocks(ctx) })
	all.Go(func() { s.info, s.infoErr = c.readSpec(ctx, "clusterinformations", "default") })
	all.Wait()
	if nodesErr != nil {
		return nil, nodesErr
	}
	all.Go(func() { s.backend, s.backendErr = c.readBackend(ctx, s.Calico) })
	all.Go(func() { s.Pods, s.PodsErr = c.readPods(ctx, peers(s, sampled)) })
	all.Wait()
	return s, nil
}

func (c *Client) readNodes(ctx context.Context, s *Snapshot, name string) error {
	// resourceVersion 0 is answered from the API server's cache: cheap, and it
	// still answers while etcd has lost its leader.
	list, err := c.kube.CoreV1().Nodes().List(ctx, metav1.ListOptions{ResourceVersion: "0"})
	if err != nil {
		return fmt.Errorf("listing nodes: %w", err)
	}
	s.Nodes = list.Items
	slices.SortFunc(s.Nodes, func(a, b corev1.Node) int { return strings.Compare(a.Name, b.Name) })
	i := slices.IndexFunc(s.Nodes, func(n corev1.Node) bool { return n.Name == name })
	if i < 0 {
		return &UnknownNodeError{Name: name, Have: alike(s.Nodes, name)}
	}
	s.Node = &s.Nodes[i]
	return nil
}

// alike orders the nodes' names by how much of the wanted name they share.
func alike(nodes []corev1.Node, want string) []string {
	score := func(have string) int {
		switch {
		case strings.Contains(have, want) || strings.Contains(want, have):
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

// CalicoPods selects the DaemonSet pods that run Felix: Calico's own, by
// manifest or operator, and Canal's.
const CalicoPods = "k8s-app in (calico-node, canal)"

func (c *Client) readCalicoPod(ctx context.Context, node string) (*corev1.Pod, error) {
	list, err := c.kube.CoreV1().Pods(metav1.NamespaceAll).List(ctx, metav1.ListOptions{
		LabelSelector: CalicoPods, FieldSelector: "spec.nodeName=" + node,
	})
	if err != nil {
		return nil, fmt.Errorf("listing calico-node pods: %w", err)
	}
	var newest *corev1.Pod
	for i := range list.Items {
		p := &list.Items[i]
		if newest == nil || newest.CreationTimestamp.Before(&p.CreationTimestamp) {
			newest = p
		}
	}
	return newest, nil
}

// readPods finds one running pod with its own address on each of the nodes.
func (c *Client) readPods(ctx context.Context, nodes []corev1.Node) ([]corev1.Pod, error) {
	found := make([]*corev1.Pod, len(nodes))
	errs := make([]error, len(nodes))
	var all sync.WaitGroup
	for i, n := range nodes {
		all.Go(func() {
			list, err := c.kube.CoreV1().Pods(metav1.NamespaceAll).List(ctx, metav1.ListOptions{
				FieldSelector: "status.phase=Running,spec.nodeName=" + n.Name, ResourceVersion: "0",
			})
			if err != nil {
				errs[i] = fmt.Errorf("listing pods of node %s: %w", n.Name, err)
				return
			}
			if found[i] = pingable(list.Items); found[i] == nil && slices.ContainsFunc(list.Items, ownAddress) {
				errs[i] = fmt.Errorf("no workload pod on node %s is ready", n.Name)
			}
		})
	}
	all.Wait()
	var pods []corev1.Pod
	for _, p := range found {
		if p != nil {
			pods = append(pods, *p)
		}
	}
	return pods, errors.Join(errs...)
}

// ownAddress tells whether a pod has an address that is not its node's.
func ownAddress(p corev1.Pod) bool { return !p.Spec.HostNetwork && len(p.Status.PodIPs) > 0 }

// pingable picks a pod that has its own address and is there to stay: ready,
// not being deleted, the oldest of those.
func pingable(pods []corev1.Pod) *corev1.Pod {
	var best *corev1.Pod
	for i := range pods {
		p := &pods[i]
		if !ownAddress(*p) || p.DeletionTimestamp != nil || !podReady(p) {
			continue
		}
		if best == nil || p.CreationTimestamp.Before(&best.CreationTimestamp) {
			best = p
		}
	}
	return best
}

// readSpec merges the specs of Calico's resources of one kind and these names, the
// later over the earlier. The installation decides which of the two API groups
// exists; where both do, the v3 one is a view of the other. Without any there
// are Calico's defaults.
func (c *Client) readSpec(ctx context.Context, resource string, names ...string) (map[string]any, error) {
	merged := map[string]any{}
	for _, gv := range []schema.GroupVersion{{Group: "crd.projectcalico.org", Version: "v1"}, {Group: "projectcalico.org", Version: "v3"}} {
		for _, name := range names {
			obj, err := c.calls.Resource(gv.WithResource(resource)).Get(ctx, name, metav1.GetOptions{})
			if apierrors.IsNotFound(err) {
				continue
			}
			if err != nil {
				return nil, fmt.Errorf("reading %s %s: %w", resource, name, err)
			}
			spec, _, err := unstructured.NestedMap(obj.Object, "spec")
			if err != nil {
				return nil, fmt.Errorf("reading %s %s: %w", resource, name, err)
			}
			maps.Copy(merged, spec)
		}
		if len(merged) > 0 {
			break
		}
	}
	return merged, nil
}

// readAPI lists where the API server answers inside the cluster.
func (c *Client) readAPI(ctx context.Context) ([]probe.Target, error) {
	svc, err := c.kube.CoreV1().Services(metav1.NamespaceDefault).Get(ctx, "kubernetes", metav1.GetOptions{})
	if err != nil {
		return nil, fmt.Errorf("reading service default/kubernetes: %w", err)
	}
	return c.readService(ctx, probe.KindDatastore, svc)
}

// readDNS lists where the cluster's DNS answers. Distributions name its service
// differently and agree on the label.
func (c *Client) readDNS(ctx context.Context) ([]probe.Target, error) {
	list, err := c.kube.CoreV1().Services(metav1.NamespaceSystem).List(ctx, metav1.ListOptions{LabelSelector: "k8s-app=kube-dns"})
	if err != nil {
		return nil, fmt.Errorf("listing DNS services: %w", err)
	}
	if len(list.Items) == 0 {
		return nil, nil
	}
	return c.readService(ctx, probe.KindDNS, &list.Items[0])
}

// readService lists a service's own addresses and those of its endpoints, as
// targets of a kind. A port that is both UDP and TCP is one target.
func (c *Client) readService(ctx context.Context, kind string, svc *corev1.Service) ([]probe.Target, error) {
	var out []probe.Target
	add := func(name, node, addr string, port int32) {
		a, err := netip.ParseAddr(addr)
		t := probe.Target{Kind: kind, Name: name, Node: node, Addr: a, Port: int(port)}
		same := func(o probe.Target) bool { return o.Addr == t.Addr && o.Port == t.Port }
		if err == nil && !slices.ContainsFunc(out, same) {
			out = append(out, t)
		}
	}
	wanted := func(port string) bool { return kind != probe.KindDNS || !strings.Contains(port, "metrics") }
	for _, p := range svc.Spec.Ports {
		for _, ip := range svc.Spec.ClusterIPs {
			if wanted(p.Name) {
				add("service", "", ip, p.Port)
			}
		}
	}
	parts, err := c.kube.DiscoveryV1().EndpointSlices(svc.Namespace).List(ctx, metav1.ListOptions{LabelSelector: discoveryv1.LabelServiceName + "=" + svc.Name})
	if err != nil {
		return out, fmt.Errorf("listing the endpoints of %s/%s: %w", svc.Namespace, svc.Name, err)
	}
	for _, part := range parts.Items {
		for _, e := range part.Endpoints {
			if ready := e.Conditions.Ready; ready != nil && !*ready {
				continue // kube-proxy does not use it either
			}
			for _, p := range part.Ports {
				if p.Port != nil && len(e.Addresses) > 0 && (p.Name == nil || wanted(*p.Name)) { // all addresses of an endpoint are the same place
					node := ""
					if e.NodeName != nil {
						node = *e.NodeName
					}
					add("endpoint", node, e.Addresses[0], *p.Port)
				}
			}
		}
	}
	return out, nil
}

// block is one block of pod addresses that belongs to a node.
type block struct {
	cidr netip.Prefix
	node string
}

// readBlocks lists the confirmed block affinities of nodes. Versions write
// "deleted" as text or as a truth value.
func (c *Client) readBlocks(ctx context.Context) ([]block, error) {
	var last error
	for _, gv := range []schema.GroupVersion{{Group: "crd.projectcalico.org", Version: "v1"}, {Group: "projectcalico.org", Version: "v3"}} {
		list, err := c.calls.Resource(gv.WithResource("blockaffinities")).List(ctx, metav1.ListOptions{ResourceVersion: "0"})
		if apierrors.IsNotFound(err) { // the group is not installed
			continue
		}
		if err != nil {
			last = err
			continue
		}
		var out []block
		for _, item := range list.Items {
			if b, ok := confirmed(item.Object); ok {
				out = append(out, b)
			}
		}
		return out, nil
	}
	if last != nil {
		return nil, fmt.Errorf("listing block affinities: %w", last)
	}
	return nil, nil
}

func confirmed(obj map[string]any) (block, bool) {
	spec, _, err := unstructured.NestedMap(obj, "spec")
	if err != nil || spec["state"] != "confirmed" || spec["deleted"] == "true" || spec["deleted"] == true {
		return block{}, false
	}
	if kind, _ := spec["type"].(string); kind != "" && kind != "host" {
		return block{}, false // of a load balancer, not of a node
	}
	text, _ := spec["cidr"].(string)
	node, _ := spec["node"].(string)
	cidr, err := netip.ParsePrefix(text)
	return block{cidr, node}, err == nil && node != ""
}

// readBackend is what the calico-node container gets as its networking backend:
// a literal, as the operator writes it, or a key of a ConfigMap, as Calico's
// manifests have it. A container without the variable gets Calico's default.
func (c *Client) readBackend(ctx context.Context, calico *corev1.Pod) (string, error) {
	spec, _ := calicoContainerOf(calico)
	if spec == nil {
		return "", nil
	}
	env := envOf(calico, "CALICO_NETWORKING_BACKEND")
	switch {
	case env.ValueFrom != nil && env.ValueFrom.ConfigMapKeyRef != nil:
	case env.ValueFrom != nil:
		return "", errors.New("CALICO_NETWORKING_BACKEND is set from elsewhere than a ConfigMap")
	case env.Value != "":
		return env.Value, nil
	default:
		return "bird", nil
	}
	ref := env.ValueFrom.ConfigMapKeyRef
	m, err := c.kube.CoreV1().ConfigMaps(calico.Namespace).Get(ctx, ref.Name, metav1.GetOptions{})
	if err != nil {
		return "", fmt.Errorf("reading Calico's networking backend: %w", err)
	}
	return m.Data[ref.Key], nil
}

// denied tells whether err is the API refusing for lack of rights.
func denied(err error) bool { return apierrors.IsForbidden(err) || apierrors.IsUnauthorized(err) }
