package cluster

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/calico-probe/calico-probe/internal/netpolicy"
	"github.com/calico-probe/calico-probe/probe"
)

// entered is the maximum number of workload pods that a probe may enter on its node.
const entered = 3

// local holds data about the pods on a node.
type local struct {
	pods      []corev1.Pod   // some of the workload pods
	logs      []probe.Target // pods of kube-proxy, CoreDNS and Calico, for their logs
	KubeProxy []string       // names of the kube-proxy pods; nil = unknown
}

// readLocal finds the workload pods and the kube-proxy pods on the node. All installers use the same namespace and
// label for kube-proxy. In other namespaces, any user can create a pod with this label.
func (s *Snapshot) readLocal(context.Context) (out local, err error) {
	if s.Placed.Pods.Err != nil {
		return out, s.Placed.Pods.Err
	}
	running := s.Placed.Running()
	out.pods = ofEachPool(pingable(running, len(running), s.Policies), s.Pools.Value, entered)
	if out.pods == nil && slices.ContainsFunc(running, OwnAddress) {
		err = notReady(s.Node.Name)
	}
	out.KubeProxy = []string{}
	for _, p := range running {
		if t, ok := loggedBy(&p); ok && len(out.logs) < entered {
			out.logs = append(out.logs, t)
		}
		if p.Namespace == metav1.NamespaceSystem && p.Labels["k8s-app"] == "kube-proxy" &&
			metav1.GetControllerOf(&p) != nil {
			out.KubeProxy = append(out.KubeProxy, p.Name)
		}
	}
	out.logs = append(out.logs, s.calicosLogs(running)...)
	return out, err
}

// pingable returns at most n ready pods with their own address, oldest first. It omits terminating pods. Only if there
// are no other pods does it return pods that a policy selects, or whose owner may shape the pod network.
func pingable(pods []corev1.Pod, n int, under netpolicy.Policies) []corev1.Pod {
	var free, held []corev1.Pod
	for _, p := range pods {
		switch {
		case !OwnAddress(p) || p.DeletionTimestamp != nil || !PodReady(&p):
		case under.Free(p.Namespace, netpolicy.LabelsOf(&p)) == 0 && ownNetwork(&p) == "":
			free = append(free, p)
		default:
			held = append(held, p)
		}
	}
	out := free
	if len(free) == 0 {
		out = held
	}
	slices.SortStableFunc(out, func(a, b corev1.Pod) int { return a.CreationTimestamp.Compare(b.CreationTimestamp.Time) })
	return out[:min(len(out), n)]
}

// ofEachPool returns at most n pods: first one pod per IP pool, because an IP pool's fault affects only pods with its
// addresses, then the other pods in order.
func ofEachPool(pods []corev1.Pod, pools Specs, n int) []corev1.Pod {
	seen := map[netip.Prefix]bool{}
	var first, more []corev1.Pod
	for _, p := range pods {
		address, _ := netip.ParseAddr(p.Status.PodIP) // an invalid address belongs to no pool
		of := poolOf(address, pools)
		if of.IsValid() && !seen[of] {
			seen[of] = true
			first = append(first, p)
		} else {
			more = append(more, p)
		}
	}
	out := slices.Concat(first, more)
	return out[:min(len(out), n)]
}

// poolOf returns the range of the pool that contains an address, or an invalid range if there is no such pool.
func poolOf(address netip.Addr, pools Specs) netip.Prefix {
	for _, spec := range pools {
		if cidr, ok := CIDROf(spec); ok && cidr.Contains(address) {
			return cidr
		}
	}
	return netip.Prefix{}
}

// localTargets returns the pods of the node that a probe may enter, with their pools.
func localTargets(s *Snapshot) []probe.Target {
	out := podTargets(probe.KindLocal, s.Local.Value.pods, s.Policies)
	for i := range out {
		if pool := poolOf(out[i].Addr, s.Pools.Value); pool.IsValid() {
			out[i].Attrs = forbidding(map[string]string{probe.AttrPool: pool.String()}, out[i].Attrs)
		}
	}
	return out
}

// loggedBy returns a pod of kube-proxy or CoreDNS as a target for reading its log. A tenant cannot create pods in
// kube-system.
func loggedBy(p *corev1.Pod) (probe.Target, bool) {
	name := map[string]string{"kube-proxy": "kube-proxy", "kube-dns": "coredns"}[p.Labels["k8s-app"]]
	if name == "" || p.Namespace != metav1.NamespaceSystem || metav1.GetControllerOf(p) == nil {
		return probe.Target{}, false
	}
	return probe.Target{Kind: probe.KindLogs, Name: name, Node: p.Spec.NodeName, Host: p.Name,
		Attrs: map[string]string{probe.AttrLogs: p.Namespace + "_" + p.Name + "_" + string(p.UID)}}, true
}

// noneReady returns the error for a node without a ready pod. It returns nil if the node has no pods or is itself not
// ready.
func noneReady(node *corev1.Node, running []corev1.Pod) error {
	if !slices.ContainsFunc(running, OwnAddress) || !ReadyNow(node) {
		return nil
	}
	return notReady(node.Name)
}

func notReady(node string) error { return fmt.Errorf("no workload pod on node %s is ready", node) }

// readPods finds one running pod with its own address on each node.
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
