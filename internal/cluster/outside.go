package cluster

import (
	"cmp"
	"hash/fnv"
	"net/netip"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/calico-probe/calico-probe/probe"
)

// BaselineNodes returns at most n healthy nodes to compare with the snapshot's node. Nodes with a preferred address,
// such as the peer of a failed BGP session, come first, in the order of the addresses. The other nodes are spread
// evenly over the names.
func BaselineNodes(s *Snapshot, n int, prefer []netip.Addr) []*corev1.Node {
	fit := healthyNodes(s)
	with := map[netip.Addr]*corev1.Node{}
	for _, node := range fit {
		for _, a := range Addresses(node) {
			with[a] = node
		}
	}
	var out []*corev1.Node
	add := func(node *corev1.Node) {
		if node != nil && len(out) < n && !slices.Contains(out, node) {
			out = append(out, node)
		}
	}
	for _, a := range prefer {
		add(with[a])
	}
	for i := range min(n, len(fit)) {
		add(fit[i*len(fit)/n])
	}
	for _, node := range fit { // skip the preferred nodes
		add(node)
	}
	return out
}

// healthyNodes returns the nodes that can be compared with the snapshot's node.
func healthyNodes(s *Snapshot) []*corev1.Node {
	var out []*corev1.Node
	for _, node := range peers(s, len(s.Nodes)) {
		if fitToCompare(&node) {
			out = append(out, &node)
		}
	}
	return out
}

// SameRole reports whether both nodes are control plane nodes, or neither is. A firewall may treat the roles
// differently.
func SameRole(a, b *corev1.Node) bool {
	role := func(n *corev1.Node) bool {
		_, is := n.Labels["node-role.kubernetes.io/control-plane"]
		return is
	}
	return role(a) == role(b)
}

// Witness returns the healthy node that tests the snapshot's node from outside, or nil if there is none. It prefers a
// node with the same role. Its choice depends on the snapshot node's name, so one node is not the witness of all
// others.
func Witness(s *Snapshot) *corev1.Node {
	fit := healthyNodes(s)
	same := slices.DeleteFunc(slices.Clone(fit), func(n *corev1.Node) bool { return !SameRole(n, s.Node) })
	if len(same) > 0 {
		fit = same
	}
	if len(fit) == 0 {
		return nil
	}
	name := fnv.New32a()
	_, _ = name.Write([]byte(s.Node.Name)) // never fails (hash.Hash)
	return fit[int(name.Sum32()%uint32(len(fit)))]
}

// fitToCompare reports whether the API shows a node as healthy and neither cordoned nor drained.
func fitToCompare(n *corev1.Node) bool {
	return StateOf(n) == nil && !n.Spec.Unschedulable && n.DeletionTimestamp == nil &&
		!slices.ContainsFunc(n.Spec.Taints, func(t corev1.Taint) bool { return t.Effect == corev1.TaintEffectNoExecute })
}

// Addresses returns a node's InternalIPs and the addresses that Calico registered for it.
func Addresses(n *corev1.Node) []netip.Addr {
	return withRegistered(InternalIPs(n), n)
}

// withRegistered adds the addresses that Calico registered for a node.
func withRegistered(out []netip.Addr, n *corev1.Node) []netip.Addr {
	for _, t := range Self(n) {
		if !slices.Contains(out, t.Addr) {
			out = append(out, t.Addr)
		}
	}
	return out
}

// usedIPs returns a node's InternalIPs without those of a second family that Calico does not use. Nothing in the
// cluster connects to them, and a hardened node may have switched IPv6 off.
func (s *Survey) usedIPs(n *corev1.Node) []netip.Addr {
	all := InternalIPs(n)
	if len(all) == 0 {
		return nil
	}
	first, uses := all[0].Is6(), s.Known().families()
	return slices.DeleteFunc(all, func(a netip.Addr) bool { return a.Is6() != first && !uses[a.Is6()] })
}

// familiesOfCalico returns the families in which Calico has a pool or has registered a node's address; true = IPv6. If
// the pools are unknown, it returns both.
func familiesOfCalico(s *Survey) map[bool]bool {
	out := map[bool]bool{}
	for _, spec := range s.Pools.Value {
		text, _ := spec["cidr"].(string)
		if cidr, err := netip.ParsePrefix(text); err == nil {
			out[cidr.Addr().Is6()] = true
		}
	}
	if s.Pools.Err != nil || len(out) == 0 {
		return map[bool]bool{false: true, true: true}
	}
	for i := range s.Nodes {
		for _, t := range Self(&s.Nodes[i]) {
			out[t.Addr.Is6()] = true
		}
	}
	return out
}

// The ports to test from outside.
const (
	portSSH     = 22
	portKubelet = 10250
)

// kubeletFrom returns the kubelet port that the node reports. If this port is privileged or invalid, it returns the
// default port.
func kubeletFrom(n *corev1.Node) int {
	port := int(n.Status.DaemonEndpoints.KubeletEndpoint.Port)
	if port < 1024 || port > 65535 {
		return portKubelet
	}
	return port
}

// Outside returns the targets for a probe on the witness node: the snapshot node's InternalIPs, its registered address
// if that differs, one of its workload pods and, for comparison, a third node's kubelet.
func Outside(s *Snapshot, witness string) []probe.Target {
	kubelet := kubeletFrom(s.Node)
	internal, own := s.usedIPs(s.Node), Self(s.Node)
	var out []probe.Target
	add := func(a netip.Addr, port int, attrs map[string]string) {
		out = append(out, probe.Target{Kind: probe.KindOutside, Name: s.Node.Name, Node: s.Node.Name, Addr: a, Port: port,
			Attrs: attrs})
	}
	for _, a := range withRegistered(internal, s.Node) {
		add(a, 0, nil)
		if slices.Contains(internal, a) {
			add(a, portSSH, nil)
			add(a, kubelet, nil)
		}
		// If the backend is unknown, BIRD may not be running.
		if s.Backend.Value == "bird" && slices.ContainsFunc(own, func(t probe.Target) bool { return t.Addr == a }) {
			add(a, cmp.Or(s.Peering.Port(s.Node), DefaultBGPPort), map[string]string{probe.AttrScope: "bgp"})
		}
	}
	pods := s.Local.Value.pods
	if len(pods) == 0 {
		pods = s.unready
	}
	for _, pod := range podTargets(probe.KindOutside, pods[:min(len(pods), 1)], s.Policies) {
		pod.Port = 0 // ping only: the program may not listen on the declared port
		out = append(out, pod)
	}
	for _, third := range healthyNodes(s) {
		if third.Name == witness || !SameRole(third, s.Node) {
			continue
		}
		for _, a := range s.usedIPs(third) {
			out = append(out, probe.Target{Kind: probe.KindOutside, Name: third.Name, Node: third.Name, Addr: a,
				Port: kubeletFrom(third), Attrs: map[string]string{probe.AttrReference: "true"}})
		}
		break
	}
	return out
}
