package cluster

import (
	"errors"
	"maps"
	"net/netip"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/calico-probe/calico-probe/internal/netpolicy"
	"github.com/calico-probe/calico-probe/probe"
)

// Sampled is the number of other nodes that a plan checks. Several nodes are needed to distinguish a bad peer from a
// bad node. A fixed number keeps the cost independent of the cluster's size.
const Sampled = 8

// Annotations that Calico writes on a Node (libcalico-go, k8s/resources/node.go).
const (
	AnnotationIPv4 = "projectcalico.org/IPv4Address"
	AnnotationIPv6 = "projectcalico.org/IPv6Address"
)

// peers returns at most n other nodes, ready nodes first, spread evenly over the names. The same snapshot always yields
// the same peers.
func peers(s *Snapshot, n int) []corev1.Node {
	known := s.Known()
	others := func(nodes []*corev1.Node) []*corev1.Node {
		return slices.DeleteFunc(slices.Clone(nodes), func(o *corev1.Node) bool { return o.Name == s.Node.Name })
	}
	picked := spread(others(known.ready()), n)
	picked = append(picked, spread(others(known.unready()), n-len(picked))...)
	out := make([]corev1.Node, 0, len(picked))
	for _, node := range picked {
		out = append(out, *node)
	}
	return out
}

// onLinux returns the ready or the unready Linux nodes. Windows nodes have other checks.
func onLinux(nodes []corev1.Node, isReady bool) []*corev1.Node {
	var out []*corev1.Node
	for i := range nodes {
		os := nodes[i].Labels[corev1.LabelOSStable]
		if (os == "" || os == "linux") && ReadyNow(&nodes[i]) == isReady {
			out = append(out, &nodes[i])
		}
	}
	return out
}

// spread returns at most n of the nodes, at even distances in the list.
func spread(nodes []*corev1.Node, n int) []*corev1.Node {
	if len(nodes) <= n {
		return nodes
	}
	picked := make([]*corev1.Node, 0, max(n, 0))
	for i := range n {
		picked = append(picked, nodes[i*len(nodes)/n])
	}
	return picked
}

// Targets returns the targets for a probe on s.Node, and the reasons why some kinds of targets could not be listed.
func Targets(s *Snapshot) (targets []probe.Target, gaps map[string]string) {
	gaps = map[string]string{}
	sessions, unlisted := SessionTargets(s, s.Node)
	calico := SeeCalicoPod(s.Calico.Err)
	for kind, err := range map[string]error{
		probe.KindSession: unlisted, probe.KindFelix: errors.Join(s.Felix.Err, calico), probe.KindPod: s.pods.Err,
		probe.KindDatastore: errors.Join(s.API.Err, s.Etcd.Err), probe.KindDNS: s.DNS.Err, probe.KindBlock: s.Blocks.Err,
		probe.KindPool:  s.Pools.Err,
		probe.KindLocal: s.Local.Err, probe.KindLogs: s.Local.Err,
		probe.KindService: s.Services.Err, probe.KindNodePort: s.Services.Err,
		probe.KindTypha:   errors.Join(calico, s.Typha.Err),
		probe.KindBackend: errors.Join(calico, s.Backend.Err, s.Peering.Configs.Err),
		probe.KindCalico:  errors.Join(calico, s.Info.Err),
	} {
		if err != nil {
			gaps[kind] = strings.Join(strings.Fields(err.Error()), " ")
		}
	}
	if errors.Is(s.Pools.Err, ErrInEtcd) {
		gaps[probe.KindTunnel] = probe.GapEtcd
	}
	targets = append([]probe.Target{FelixTarget(s)}, Self(s.Node)...)
	if s.Backend.Value != "" {
		targets = append(targets, probe.Target{Kind: probe.KindBackend, Name: s.Backend.Value, Node: s.Node.Name,
			Port: s.Peering.Port(s.Node)})
	}
	if t, ok := calicoTarget(s); ok {
		targets = append(targets, t)
	}
	if runtime := s.Node.Status.NodeInfo.ContainerRuntimeVersion; runtime != "" {
		targets = append(targets, probe.Target{Kind: probe.KindRuntime, Name: runtime, Node: s.Node.Name})
	}
	targets = slices.Concat(targets, s.API.Value, s.configuredAPI(), s.Local.Value.logs, s.Etcd.Value, dnsTargets(s),
		s.Typha.Value.Targets, s.Services.Value, sessions, blockTargets(s), PoolTargets(s), tunnelTargets(s))
	for _, n := range peers(s, Sampled) {
		internal := s.usedIPs(&n)
		attrs := StateOf(&n)
		for _, a := range internal {
			targets = append(targets, probe.Target{Kind: probe.KindNode, Name: n.Name, Node: n.Name, Addr: a, Attrs: attrs})
		}
		for _, key := range []string{AnnotationIPv4, AnnotationIPv6} {
			if p, ok := registered(&n, key); ok && !slices.Contains(internal, p.Addr()) {
				targets = append(targets, probe.Target{Kind: probe.KindPeer, Name: n.Name, Node: n.Name, Addr: p.Addr(),
					Attrs: attrs})
			}
		}
	}
	if s.Calico.Value == nil && s.Calico.Err == nil && NotCalicos(s.Node) != "" {
		for _, kind := range calicosOwn {
			gaps[kind] = probe.GapNotCalicos
		}
		targets = slices.DeleteFunc(targets, func(t probe.Target) bool {
			return t.Kind != probe.KindFelix && slices.Contains(calicosOwn, t.Kind)
		})
	}
	targets = append(targets, podTargets(probe.KindPod, s.pods.Value, s.Policies)...)
	targets = append(targets, localTargets(s)...)
	return targets, gaps
}

// calicosOwn lists the kinds of targets that a node without Calico does not have.
var calicosOwn = []string{probe.KindFelix, probe.KindBackend, probe.KindCalico, probe.KindSession, probe.KindBlock,
	probe.KindTunnel, probe.KindPool, probe.KindTypha, probe.KindSelf}

// StateOf returns the target attribute for a NotReady node, nil for a ready node.
func StateOf(n *corev1.Node) map[string]string {
	switch Readiness(n).Status {
	case corev1.ConditionFalse:
		return map[string]string{probe.AttrNode: probe.NodeNotReady}
	case corev1.ConditionUnknown:
		return map[string]string{probe.AttrNode: probe.NodeSilent}
	}
	return nil
}

// forbidding adds the policies that may block packets to a target's attributes.
func forbidding(attrs, held map[string]string) map[string]string {
	if len(held) == 0 {
		return attrs
	}
	out := maps.Clone(held)
	maps.Copy(out, attrs)
	return out
}

// dnsTargets returns the DNS servers. A policy on their pods may allow traffic only from pods.
func dnsTargets(s *Snapshot) []probe.Target {
	out := slices.Clone(s.DNS.Value.Targets)
	for i := range out {
		svc := s.DNS.Value.Service
		out[i].Attrs = forbidding(out[i].Attrs, s.Policies.On(svc.Namespace, svc.Spec.Selector))
	}
	return out
}

func podTargets(kind string, pods []corev1.Pod, under netpolicy.Policies) []probe.Target {
	var out []probe.Target
	for _, p := range pods {
		for _, ip := range p.Status.PodIPs {
			a, ok := addressOf(ip.IP)
			if !ok {
				continue
			}
			t := probe.Target{Kind: kind, Name: p.Namespace + "/" + p.Name, Node: p.Spec.NodeName, Addr: a,
				Port: int(declared(&p))}
			if kind == probe.KindLocal {
				t.Attrs = map[string]string{probe.AttrUID: string(p.UID)}
			}
			if why := ownNetwork(&p); why != "" {
				t.Attrs = forbidding(t.Attrs, map[string]string{probe.AttrOwnNetwork: why})
			}
			t.Attrs = forbidding(t.Attrs, under.On(p.Namespace, netpolicy.LabelsOf(&p)))
			out = append(out, t)
		}
	}
	return out
}

// declared returns a TCP port that a pod's spec declares, or 0 if there is none.
func declared(p *corev1.Pod) int32 {
	for _, c := range p.Spec.Containers {
		for _, port := range c.Ports {
			if port.Protocol == corev1.ProtocolTCP || port.Protocol == "" {
				return port.ContainerPort
			}
		}
	}
	return 0
}

// addressOf parses the reported address of a node or pod. It rejects an address with a zone, because a zone is free
// text, and addresses of nodes and pods do not have zones.
func addressOf(text string) (netip.Addr, bool) {
	a, err := netip.ParseAddr(text)
	return a, err == nil && a.Zone() == ""
}

// InternalIPs returns the InternalIPs of a node. The kubelet may write any text there, so InternalIPs omits invalid,
// loopback and link-local addresses. Clouds serve their metadata at a link-local address.
func InternalIPs(n *corev1.Node) []netip.Addr {
	var out []netip.Addr
	for _, a := range n.Status.Addresses {
		if a.Type != corev1.NodeInternalIP {
			continue
		}
		if ip, ok := addressOf(a.Address); ok && ip.Unmap().IsGlobalUnicast() {
			out = append(out, ip)
		}
	}
	return out
}

// registered parses the address with prefix length that Calico registered for a node. Some versions write the address
// without a prefix length.
func registered(n *corev1.Node, key string) (netip.Prefix, bool) {
	v := n.Annotations[key]
	if p, err := netip.ParsePrefix(v); err == nil {
		return p, true
	}
	if a, ok := addressOf(v); ok {
		return netip.PrefixFrom(a, a.BitLen()), true
	}
	return netip.Prefix{}, false
}

// Readiness returns a node's condition Ready. If the node does not have it, the status is Unknown.
func Readiness(n *corev1.Node) corev1.NodeCondition {
	for _, c := range n.Status.Conditions {
		if c.Type == corev1.NodeReady {
			return c
		}
	}
	return corev1.NodeCondition{Type: corev1.NodeReady, Status: corev1.ConditionUnknown, Reason: "Absent"}
}

// PodReady reports whether the API shows a pod as ready.
func PodReady(p *corev1.Pod) bool {
	return slices.ContainsFunc(p.Status.Conditions, func(c corev1.PodCondition) bool {
		return c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue
	})
}
