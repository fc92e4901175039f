package cluster

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"regexp"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/calico-probe/calico-probe/probe"
)

// sampled is how many other nodes a plan asks about: enough to tell one bad
// peer from a bad node, few enough that a thousand-node cluster costs no more
// than a small one.
const sampled = 8

// annotation names Calico writes on a Node (libcalico-go, k8s/resources/node.go).
const (
	annotationIPv4 = "projectcalico.org/IPv4Address"
	annotationIPv6 = "projectcalico.org/IPv6Address"
)

// peers picks at most n other nodes, ready ones first, spread evenly over the
// names. It is a pure function: the same snapshot gives the same peers.
func peers(s *Snapshot, n int) []corev1.Node {
	var ready, rest []corev1.Node
	for _, node := range s.Nodes {
		switch os := node.Labels[corev1.LabelOSStable]; {
		case node.Name == s.Node.Name, os != "" && os != "linux": // Windows answers other questions
		case conditionOf(node.Status.Conditions, corev1.NodeReady).Status == corev1.ConditionTrue:
			ready = append(ready, node)
		default:
			rest = append(rest, node)
		}
	}
	picked := spread(ready, n)
	return append(picked, spread(rest, n-len(picked))...)
}

func spread(nodes []corev1.Node, n int) []corev1.Node {
	if len(nodes) <= n {
		return nodes
	}
	picked := make([]corev1.Node, 0, max(n, 0))
	for i := range n {
		picked = append(picked, nodes[i*len(nodes)/n])
	}
	return picked
}

// Targets is what a probe on s.Node is to ask about, and which kinds of target
// could not be listed, and why.
func Targets(s *Snapshot) (targets []probe.Target, gaps map[string]string) {
	gaps = map[string]string{}
	sessions, sessionErr := sessionTargets(s, s.Node)
	portErr := s.peeringErr
	if s.peering.configs != nil { // the BGPPeers could not be read, and they do not say it
		portErr = nil
	}
	for kind, err := range map[string]error{
		probe.KindSession: sessionErr, probe.KindFelix: errors.Join(s.felixErr, s.CalicoErr), probe.KindPod: s.PodsErr,
		probe.KindDatastore: errors.Join(s.apiErr, s.etcdErr), probe.KindDNS: s.dnsErr, probe.KindBlock: s.blockErr, probe.KindPool: s.poolErr, probe.KindTunnel: s.tunnelErr,
		probe.KindLocal: s.localErr, probe.KindService: s.serviceErr, probe.KindNodePort: s.serviceErr, probe.KindTypha: errors.Join(s.CalicoErr, s.typhaErr),
		probe.KindBackend: errors.Join(s.CalicoErr, s.backendErr, portErr), probe.KindCalico: errors.Join(s.CalicoErr, s.infoErr),
	} {
		if err != nil {
			gaps[kind] = strings.Join(strings.Fields(err.Error()), " ")
		}
	}
	targets = append([]probe.Target{felixTarget(s)}, Self(s.Node)...)
	if s.backend != "" {
		targets = append(targets, probe.Target{Kind: probe.KindBackend, Name: s.backend, Node: s.Node.Name, Port: s.peering.port(s.Node)})
	}
	if t, ok := calicoTarget(s); ok {
		targets = append(targets, t)
	}
	if runtime := s.Node.Status.NodeInfo.ContainerRuntimeVersion; runtime != "" {
		targets = append(targets, probe.Target{Kind: probe.KindRuntime, Name: runtime, Node: s.Node.Name})
	}
	targets = slices.Concat(targets, s.api, s.etcd, dnsTargets(s), s.typha, s.services, sessions, blockTargets(s), poolTargets(s), tunnelTargets(s))
	for _, n := range peers(s, sampled) {
		internal := internalIPs(&n)
		attrs := stateOf(&n)
		for _, a := range internal {
			targets = append(targets, probe.Target{Kind: probe.KindNode, Name: n.Name, Node: n.Name, Addr: a, Attrs: attrs})
		}
		for _, key := range []string{annotationIPv4, annotationIPv6} {
			if p, ok := registered(&n, key); ok && !slices.Contains(internal, p.Addr()) {
				targets = append(targets, probe.Target{Kind: probe.KindPeer, Name: n.Name, Node: n.Name, Addr: p.Addr(), Attrs: attrs})
			}
		}
	}
	targets = append(targets, podTargets(probe.KindPod, s.Pods, s.policies)...)
	targets = append(targets, podTargets(probe.KindLocal, s.local, s.policies)...)
	return targets, gaps
}

// stateOf is what a target says of a node that is not Ready, nil when it is.
func stateOf(n *corev1.Node) map[string]string {
	switch conditionOf(n.Status.Conditions, corev1.NodeReady).Status {
	case corev1.ConditionFalse:
		return map[string]string{probe.AttrNode: "NotReady"}
	case corev1.ConditionUnknown:
		return map[string]string{probe.AttrNode: "NotReady (its kubelet is silent)"}
	}
	return nil
}

// forbidding adds what may forbid packets to the attributes of a target.
func forbidding(attrs, held map[string]string) map[string]string {
	if len(held) == 0 {
		return attrs
	}
	out := maps.Clone(held)
	maps.Copy(out, attrs)
	return out
}

// dnsTargets are the DNS servers; a policy on their pods may admit pods alone.
func dnsTargets(s *Snapshot) []probe.Target {
	out := slices.Clone(s.dns)
	for i := range out {
		out[i].Attrs = forbidding(out[i].Attrs, s.policies.on(s.dnsService.Namespace, s.dnsService.Spec.Selector))
	}
	return out
}

func podTargets(kind string, pods []corev1.Pod, under policies) []probe.Target {
	var out []probe.Target
	for _, p := range pods {
		for _, ip := range p.Status.PodIPs {
			a, err := netip.ParseAddr(ip.IP)
			if err != nil {
				continue
			}
			t := probe.Target{Kind: kind, Name: p.Namespace + "/" + p.Name, Node: p.Spec.NodeName, Addr: a, Port: int(declared(&p))}
			if kind == probe.KindLocal {
				t.Attrs = map[string]string{probe.AttrUID: string(p.UID)}
			}
			t.Attrs = forbidding(t.Attrs, under.on(p.Namespace, p.Labels))
			out = append(out, t)
		}
	}
	return out
}

// declared is a TCP port a pod says it listens on, 0 when it says none.
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

// abandoned tells whether a pool gives out no more addresses, and nobody has any of
// it: disabling a pool leaves the blocks and pods that are there as they are. Another
// IPAM keeps no blocks, so there nobody can tell.
func abandoned(s *Snapshot, spec map[string]any, cidr netip.Prefix) bool {
	off, _ := spec["disabled"].(bool)
	return off && len(s.blocks) > 0 && !slices.ContainsFunc(s.blocks, func(b block) bool { return cidr.Contains(b.cidr.Addr()) })
}

// poolTargets are the IP pools whose addresses are in use, or may come into use.
func poolTargets(s *Snapshot) []probe.Target {
	var out []probe.Target
	for _, name := range slices.Sorted(maps.Keys(s.pools)) {
		spec := s.pools[name]
		text, _ := spec["cidr"].(string)
		cidr, err := netip.ParsePrefix(text)
		if err != nil || abandoned(s, spec, cidr) {
			continue
		}
		mode := func(key string) string {
			m, _ := spec[key].(string)
			return cmp.Or(m, "Never")
		}
		t := probe.Target{Kind: probe.KindPool, Name: text, Attrs: map[string]string{
			probe.AttrIPIP: mode("ipipMode"), probe.AttrVXLAN: mode("vxlanMode"),
		}}
		if off, _ := spec["disabled"].(bool); off {
			t.Attrs[probe.AttrDisabled] = "true"
		}
		out = append(out, t)
	}
	return out
}

// tunnels are the annotations that name a node's addresses inside tunnels
// (libcalico-go, k8s/resources/node.go), and what belongs to each.
var tunnels = []struct {
	addr, device string
	outer        string // annotation of the address the tunnel ends at
	attr, extra  string // an attribute and the annotation it is from
}{
	{"IPv4IPIPTunnelAddr", "tunl0", annotationIPv4, "", ""},
	{"IPv4VXLANTunnelAddr", "vxlan.calico", annotationIPv4, probe.AttrMAC, "VXLANTunnelMACAddr"},
	{"IPv6VXLANTunnelAddr", "vxlan-v6.calico", annotationIPv6, probe.AttrMAC, "VXLANTunnelMACAddrV6"},
	{"IPv4WireguardInterfaceAddr", "wireguard.cali", annotationIPv4, probe.AttrKey, "WireguardPublicKey"},
	{"IPv6WireguardInterfaceAddr", "wg-v6.cali", annotationIPv6, probe.AttrKey, "WireguardPublicKeyV6"},
}

func tunnelTargets(s *Snapshot) []probe.Target {
	const prefix = "projectcalico.org/"
	var out []probe.Target
	for i := range s.Nodes {
		n := &s.Nodes[i]
		for _, w := range tunnels {
			a, err := netip.ParseAddr(n.Annotations[prefix+w.addr])
			if err != nil {
				continue
			}
			t := probe.Target{Kind: probe.KindTunnel, Name: n.Name, Node: n.Name, Addr: a, Attrs: map[string]string{probe.AttrDevice: w.device}}
			if outer, ok := registered(n, w.outer); ok {
				t.Attrs[probe.AttrOuter] = outer.Addr().String()
			}
			if v := n.Annotations[prefix+w.extra]; w.extra != "" && v != "" {
				t.Attrs[w.attr] = v
			}
			if n.Name == s.Node.Name {
				t.Attrs[probe.AttrOwn] = "true"
			}
			out = append(out, t)
		}
	}
	return out
}

// blockTargets are the blocks of nodes that have a registered address of the
// block's family: others are left over from nodes that are gone, and nobody can
// say where they should lead.
func blockTargets(s *Snapshot) []probe.Target {
	at := map[string][2]netip.Addr{}
	states := map[string]map[string]string{}
	for i := range s.Nodes {
		n := &s.Nodes[i]
		states[n.Name] = stateOf(n)
		v4, _ := registered(n, annotationIPv4)
		v6, _ := registered(n, annotationIPv6)
		at[n.Name] = [2]netip.Addr{v4.Addr(), v6.Addr()}
	}
	var out []probe.Target
	for _, b := range s.blocks {
		addr := at[b.node][0]
		if b.cidr.Addr().Is6() {
			addr = at[b.node][1]
		}
		t := probe.Target{Kind: probe.KindBlock, Name: b.cidr.String(), Node: b.node, Addr: addr, Attrs: states[b.node]}
		if b.node == s.Node.Name {
			t.Attrs = map[string]string{probe.AttrOwn: "true"}
		} else if !addr.IsValid() {
			continue
		}
		out = append(out, t)
	}
	return out
}

// versionIn is the version an image's tag names: calico/node:v3.32.1.
var versionIn = regexp.MustCompile(`:v?(\d+\.\d+(\.\d+)?)[^:/]*$`)

// calicoTarget is how calico-node on this node is to find its address. The
// version is that of the node's own image, for upgrades go node by node.
func calicoTarget(s *Snapshot) (probe.Target, bool) {
	spec, _ := calicoContainerOf(s.Calico)
	if spec == nil {
		return probe.Target{}, false
	}
	version, _ := s.info["calicoVersion"].(string)
	if m := versionIn.FindStringSubmatch(spec.Image); m != nil {
		version = "v" + m[1]
	}
	budget, _ := killBudget(spec)
	var internal []string
	for _, a := range internalIPs(s.Node) {
		internal = append(internal, a.String())
	}
	return probe.Target{Kind: probe.KindCalico, Name: version, Node: s.Node.Name, Attrs: map[string]string{
		probe.AttrIP: given(s.Calico, "IP"), probe.AttrIP6: given(s.Calico, "IP6"),
		probe.AttrMethod: given(s.Calico, "IP_AUTODETECTION_METHOD"), probe.AttrMethod6: given(s.Calico, "IP6_AUTODETECTION_METHOD"),
		probe.AttrInternal: strings.Join(internal, ","), probe.AttrPodCIDRs: strings.Join(s.Node.Spec.PodCIDRs, ","), probe.AttrBudget: strconv.Itoa(int(budget.Seconds())),
	}}, true
}

// given is how an address is set, also when that is the pod's own field.
func given(calico *corev1.Pod, name string) string {
	env := envOf(calico, name)
	switch from := env.ValueFrom; {
	case from != nil && from.FieldRef != nil:
		return "(" + from.FieldRef.FieldPath + ")"
	case from != nil:
		return "(from elsewhere)"
	}
	return env.Value
}

// felixTarget is where this node's Felix is told to answer: the pod's
// environment wins over FelixConfiguration, which wins over Felix's defaults.
func felixTarget(s *Snapshot) probe.Target {
	t := probe.Target{Kind: probe.KindFelix, Name: "felix", Node: s.Node.Name}
	if on, ok := felixEnabled(s); ok {
		t.Attrs = map[string]string{probe.AttrEnabled: strconv.FormatBool(on)}
	}
	if h, ok := s.felix["healthHost"].(string); ok && h != "" {
		t.Host = h
	}
	if p, ok := s.felix["healthPort"].(int64); ok && p > 0 {
		t.Port = int(p)
	}
	if h := s.calicoEnv("FELIX_HEALTHHOST"); h != "" {
		t.Host = h
	}
	if p, err := strconv.Atoi(s.calicoEnv("FELIX_HEALTHPORT")); err == nil && p > 0 {
		t.Port = p
	}
	for _, name := range probe.FelixSettings() {
		value := cmp.Or(s.calicoEnv("FELIX_"+strings.ToUpper(variable(name))), plain(s.felix[name]))
		if value == "" {
			continue
		}
		if t.Attrs == nil {
			t.Attrs = map[string]string{}
		}
		t.Attrs[name] = value
	}
	return t
}

// variable is what Felix calls a setting in its environment.
func variable(name string) string {
	if name == "ipipMTU" {
		return "ipInIpMTU"
	}
	return name
}

// plain is a setting as text, "" when it is not set.
func plain(v any) string {
	if v == nil {
		return ""
	}
	return fmt.Sprint(v)
}

// felixEnabled tells whether Felix's health endpoint is turned on, which it is
// not unless somebody says so; false when that cannot be told.
func felixEnabled(s *Snapshot) (on, known bool) {
	env := envOf(s.Calico, "FELIX_HEALTHENABLED")
	if env.Value != "" {
		on, err := strconv.ParseBool(env.Value)
		return on, err == nil
	}
	if spec, _ := calicoContainerOf(s.Calico); spec == nil || env.ValueFrom != nil || s.felixErr != nil {
		return false, false
	}
	on, _ = s.felix["healthEnabled"].(bool)
	return on, true
}

// calicoEnv is the literal value of a variable of the calico-node container.
func (s *Snapshot) calicoEnv(name string) string { return envOf(s.Calico, name).Value }

// envOf is a variable of the calico-node container, zero when it has none.
func envOf(calico *corev1.Pod, name string) corev1.EnvVar {
	if calico == nil {
		return corev1.EnvVar{}
	}
	for _, c := range calico.Spec.Containers {
		for _, e := range c.Env {
			if c.Name == calicoContainer && e.Name == name {
				return e
			}
		}
	}
	return corev1.EnvVar{}
}

// calicoContainer is the name of Felix's container in Calico's and Canal's pods.
const calicoContainer = "calico-node"

func internalIPs(n *corev1.Node) []netip.Addr {
	var out []netip.Addr
	for _, a := range n.Status.Addresses {
		if a.Type != corev1.NodeInternalIP {
			continue
		}
		if ip, err := netip.ParseAddr(a.Address); err == nil {
			out = append(out, ip)
		}
	}
	return out
}

// registered parses the address with prefix length that Calico registered for a
// node; some versions write a bare address.
func registered(n *corev1.Node, key string) (netip.Prefix, bool) {
	v := n.Annotations[key]
	if p, err := netip.ParsePrefix(v); err == nil {
		return p, true
	}
	if a, err := netip.ParseAddr(v); err == nil {
		return netip.PrefixFrom(a, a.BitLen()), true
	}
	return netip.Prefix{}, false
}

func conditionOf(cs []corev1.NodeCondition, t corev1.NodeConditionType) corev1.NodeCondition {
	for _, c := range cs {
		if c.Type == t {
			return c
		}
	}
	return corev1.NodeCondition{Type: t, Status: corev1.ConditionUnknown, Reason: "Absent"}
}

func podReady(p *corev1.Pod) bool {
	return slices.ContainsFunc(p.Status.Conditions, func(c corev1.PodCondition) bool {
		return c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue
	})
}
