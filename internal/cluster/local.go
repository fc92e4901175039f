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

// entered is how many workload pods of the node itself a probe may try to enter.
const entered = 3

// local is what is known of a node by the pods that run there.
type local struct {
	pods      []corev1.Pod   // workload pods, some of them
	logs      []probe.Target // pods of kube-proxy, CoreDNS and Calico, for their logs
	KubeProxy []string       // names of the kube-proxy pods, nil = not known
}

// readLocal finds workload pods on the node itself, and the kube-proxy pods there. Installers agree
// about the namespace and the label of these; anybody can give a pod the label elsewhere.
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

// pingable picks pods that have their own address and are there to stay: ready,
// not being deleted, at most n of those, the oldest; such as a policy selects, or whose owner may shape their network,
// only where there are no others.
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

// ofEachPool picks at most n of some pods: first one of each IP pool that they have addresses of, as what is wrong with
// one pool shows in its pods alone, then the others in their order.
func ofEachPool(pods []corev1.Pod, pools Specs, n int) []corev1.Pod {
	seen := map[netip.Prefix]bool{}
	var first, more []corev1.Pod
	for _, p := range pods {
		address, _ := netip.ParseAddr(p.Status.PodIP) // an invalid one is in no pool
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

// poolOf is the range of the pool that has an address, an invalid one where none has.
func poolOf(address netip.Addr, pools Specs) netip.Prefix {
	for _, spec := range pools {
		if cidr, ok := CIDROf(spec); ok && cidr.Contains(address) {
			return cidr
		}
	}
	return netip.Prefix{}
}

// localTargets are the pods of the node that a probe may enter, with the pool of each.
func localTargets(s *Snapshot) []probe.Target {
	out := podTargets(probe.KindLocal, s.Local.Value.pods, s.Policies)
	for i := range out {
		if pool := poolOf(out[i].Addr, s.Pools.Value); pool.IsValid() {
			out[i].Attrs = forbidding(map[string]string{probe.AttrPool: pool.String()}, out[i].Attrs)
		}
	}
	return out
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
	if !slices.ContainsFunc(running, OwnAddress) || !ReadyNow(node) {
		return nil
	}
	return notReady(node.Name)
}

func notReady(node string) error { return fmt.Errorf("no workload pod on node %s is ready", node) }

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
