package cluster

import (
	"context"
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
	kubeProxy []string       // names of the kube-proxy pods, nil = not known
}

// readLocal finds workload pods on the node itself, and the kube-proxy pods there. Installers agree
// about the namespace and the label of these; anybody can give a pod the label elsewhere.
func (s *Snapshot) readLocal(context.Context) (out local, err error) {
	if s.placed.pods.Err != nil {
		return out, s.placed.pods.Err
	}
	running := s.placed.running()
	out.pods = ofEachPool(pingable(running, len(running), s.policies), s.pools.Value, entered)
	if out.pods == nil && slices.ContainsFunc(running, ownAddress) {
		err = notReady(s.Node.Name)
	}
	out.kubeProxy = []string{}
	for _, p := range running {
		if t, ok := loggedBy(&p); ok && len(out.logs) < entered {
			out.logs = append(out.logs, t)
		}
		if p.Namespace == metav1.NamespaceSystem && p.Labels["k8s-app"] == "kube-proxy" &&
			metav1.GetControllerOf(&p) != nil {
			out.kubeProxy = append(out.kubeProxy, p.Name)
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
		case !ownAddress(p) || p.DeletionTimestamp != nil || !podReady(&p):
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
func ofEachPool(pods []corev1.Pod, pools specs, n int) []corev1.Pod {
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
func poolOf(address netip.Addr, pools specs) netip.Prefix {
	for _, spec := range pools {
		if cidr, ok := cidrOf(spec); ok && cidr.Contains(address) {
			return cidr
		}
	}
	return netip.Prefix{}
}

// localTargets are the pods of the node that a probe may enter, with the pool of each.
func localTargets(s *Snapshot) []probe.Target {
	out := podTargets(probe.KindLocal, s.local.Value.pods, s.policies)
	for i := range out {
		if pool := poolOf(out[i].Addr, s.pools.Value); pool.IsValid() {
			out[i].Attrs = forbidding(map[string]string{probe.AttrPool: pool.String()}, out[i].Attrs)
		}
	}
	return out
}
