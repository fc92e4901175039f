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
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/calico-probe/calico-probe/probe"
)

// Read takes a snapshot of one node and its cluster. An error means that no useful data could be read: the API does not
// answer, refuses to list nodes, or does not have the node (*UnknownNodeError).
func (c *Client) Read(ctx context.Context, node string) (*Snapshot, error) {
	s, err := patiently(ctx, c, func(ctx context.Context) (*Snapshot, error) { return c.read(ctx, node, c.NewSurvey()) })
	if slow, is := errors.AsType[*slowError](err); is {
		slow.oneNode = true
	}
	return s, err
}

// Beside takes a snapshot of another node in the same cluster, without reading the cluster's data and the permissions
// of its accounts again.
func (c *Client) Beside(ctx context.Context, s *Snapshot, node string) (*Snapshot, error) {
	ctx, cancel := context.WithTimeout(ctx, readLimit)
	defer cancel()
	return c.read(ctx, node, s.asRead)
}

// read takes a snapshot of a node. If of is empty, it also reads the cluster.
func (c *Client) read(whole context.Context, node string, of *Survey) (*Snapshot, error) {
	ctx, cancel := firstOf(whole)
	defer cancel()
	s, c := &Snapshot{}, c.once(of)
	var all probe.Workers
	var nodes Read[[]corev1.Node]
	if of.Nodes == nil {
		nodes.start(ctx, &all, c.readNodes)
		c.readShared(ctx, of, &all)
	}
	s.Lease.start(ctx, &all, func(ctx context.Context) (*coordinationv1.Lease, error) {
		defer func() { // also after a panic
			s.Read = time.Now()
			s.Now, _ = c.clock.Now()
		}()
		return c.kube.CoordinationV1().Leases(corev1.NamespaceNodeLease).Get(ctx, node, metav1.GetOptions{})
	})
	s.Calico.start(ctx, &all, func(ctx context.Context) (pod *corev1.Pod, err error) {
		pod, s.ignored, err = c.readCalicoPod(ctx, node)
		return pod, err
	})
	all.Go(func() { s.Placed = c.readPlaced(ctx, node) })
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

// readRest reads data that depends on the node's calico-node pod and on the cluster's data.
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
	c.readProbed(ctx, &s.probed, &s.Survey, peers(s, Sampled), []corev1.Node{*s.Node}, env, &all)
	s.Local.start(ctx, &all, s.readLocal)
	if s.Placed.Pods.Err == nil {
		s.Proxy.start(ctx, &all, func(ctx context.Context) (proxyAccess, error) {
			return c.ReadProxyAccess(ctx, s.Placed.Running())
		})
	}
	if KubeletSilent(s) {
		s.unready = slices.DeleteFunc(s.Placed.Running(), func(p corev1.Pod) bool { return !OwnAddress(p) })
	}
	if len(s.Placed.Waiting.Value) > 0 {
		s.IPAM.start(ctx, &all, c.ReadIPAM)
	}
	c.ReadWaits(ctx, &s.Placed, &all)
	all.Go(func() { c.ReadAccess(ctx, s) })
	c.ReadAbsent(ctx, &s.Installation, s.Calico.Value == nil && s.Calico.Err == nil, &all)
	s.Startup.start(ctx, &all, func(ctx context.Context) (startup, error) { return c.ReadStart(ctx, s) })
	s.Starts.start(ctx, &all, func(ctx context.Context) (starts, error) {
		return c.ReadStarts(ctx, s.Node.Name, s.Now.Add(-StartsCounted))
	})
	all.Wait()
	s.HideEtcd()
	s.ForgetRegistered()
}

// HideEtcd turns empty lists into gaps if Calico stores the data in its own etcd. An empty list of IP pools is one sign
// of this: without IP pools, a cluster could not have pods.
func (s *Snapshot) HideEtcd() {
	if len(s.Etcd.Value) == 0 || s.CalicoEnv("DATASTORE_TYPE") == "kubernetes" || len(s.Pools.Value) > 0 ||
		s.Pools.Err != nil {
		return
	}
	s.Pools.Err, s.Blocks.Err, s.memo = ErrInEtcd, ErrInEtcd, nil
	s.Peering = peering{Read[Specs]{Err: ErrInEtcd}, Read[Specs]{Err: ErrInEtcd}}
	if len(s.Felix.Value) == 0 {
		s.Felix.Err = ErrInEtcd
	}
}

// ForgetRegistered drops the annotations of Nodes if Calico does not register addresses. The annotations are then
// leftovers, and prove nothing.
func (s *Snapshot) ForgetRegistered() {
	if s.Unregistered() == "" {
		return
	}
	s.Nodes, s.memo = s.Known().unannotated(), nil
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

// readCalicoPod finds the node's calico-node pod, and pods that only claim to be calico-node.
func (c *Client) readCalicoPod(ctx context.Context, node string) (pod *corev1.Pod, ignored []corev1.Pod, err error) {
	list, err := c.kube.CoreV1().Pods(metav1.NamespaceAll).List(ctx, metav1.ListOptions{
		LabelSelector: CalicoPods, FieldSelector: "spec.nodeName=" + node,
	})
	if err != nil {
		return nil, nil, fmt.Errorf("listing calico-node pods: %w", err)
	}
	of, ignored := claimsOf(list.Items, c.CalicoIn)
	return of.Value, ignored, of.Err
}

// around sets a snapshot's node and cluster.
func (s *Snapshot) around(node string, of *Survey) error {
	s.Survey, s.asRead = *of, of
	i := slices.IndexFunc(s.Nodes, func(n corev1.Node) bool { return n.Name == node })
	if i < 0 {
		return s.Unknown(node)
	}
	s.Node = &s.Nodes[i]
	return nil
}

// configured sets the fields that follow from calico-node's environment and Felix's settings.
func (s *Snapshot) configured(env environment) {
	s.Felix = Read[map[string]any]{FelixSettings(s.FelixConfigs.Value, s.Node), s.FelixConfigs.Err}
	s.Backend.Value, s.Backend.Err = readBackend(s.Calico.Value, env)
	s.Etcd.Value, s.Etcd.Err = readEtcd(env)
}
