package cluster

import (
	"net/netip"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/calico-probe/calico-probe/cluster/selector"
)

// A destination is a pod that is to receive packets at a port.
type destination struct {
	protocol  string
	port      int
	namespace string
	labels    map[string]string // with those that Calico adds
	addrs     []netip.Addr // its own, and those by which it is asked
}

// The protocols that rules are asked about, as policies name them.
const (
	protocolTCP = "TCP"
	protocolUDP = "UDP"
)

// mayReach tells whether a rule may be about packets for a destination.
func (r rule) mayReach(d destination) bool {
	return r.mayBe(d.protocol, d.port) && (r.to == nil || r.to(d))
}

// egressRules are a rule of a policy of Kubernetes' for what pods send, one for each of its ports.
func egressRules(namespace string, r networkingv1.NetworkPolicyEgressRule) []rule {
	one := rule{action: "Allow", all: len(r.To)+len(r.Ports) == 0, to: peersOf(namespace, r.To, len(r.Ports) > 0),
		nets: len(r.To) > 0}
	for _, p := range r.To {
		one.nets = one.nets && p.IPBlock != nil
	}
	if len(r.Ports) == 0 {
		return []rule{one}
	}
	var out []rule
	for _, p := range r.Ports {
		one.protocol, one.ports = protocolTCP, nil
		if p.Protocol != nil {
			one.protocol = string(*p.Protocol)
		}
		switch {
		case p.Port != nil && p.EndPort != nil:
			one.ports = []any{p.Port.String() + ":" + strconv.Itoa(int(*p.EndPort))}
		case p.Port != nil:
			one.ports = []any{p.Port.String()}
		}
		out = append(out, one)
	}
	return out
}

// peersOf tells who may be meant by the peers of a rule of Kubernetes'; nil = everybody.
func peersOf(namespace string, peers []networkingv1.NetworkPolicyPeer, hasPorts bool) func(destination) bool {
	if len(peers) == 0 {
		return nil
	}
	return func(d destination) bool {
		return slices.ContainsFunc(peers, func(p networkingv1.NetworkPolicyPeer) bool {
			if p.IPBlock != nil {
				return hasPorts || d.in(p.IPBlock.CIDR)
			}
			if p.NamespaceSelector == nil && d.namespace != namespace || !mayBeNamespace(p.NamespaceSelector, d.namespace) {
				return false
			}
			return p.PodSelector == nil || selectedBy(p.PodSelector, d.labels)
		})
	}
}

// in tells whether an address of a destination is in a network; an unreadable one may have any.
func (d destination) in(network string) bool {
	cidr, err := netip.ParsePrefix(network)
	return err != nil || slices.ContainsFunc(d.addrs, cidr.Contains)
}

// mayBeNamespace tells whether a namespace may be selected. Of its labels the one with its name is known, which the API
// server sets itself.
func mayBeNamespace(by *metav1.LabelSelector, name string) bool {
	if by == nil {
		return true
	}
	known := metav1.LabelSelector{MatchLabels: map[string]string{}}
	if want, named := by.MatchLabels[labelName]; named {
		known.MatchLabels[labelName] = want
	}
	for _, e := range by.MatchExpressions {
		if e.Key == labelName {
			known.MatchExpressions = append(known.MatchExpressions, e)
		}
	}
	return selectedBy(&known, map[string]string{labelName: name})
}

const labelName = corev1.LabelMetadataName

// selectedBy tells whether labels are selected; by a selector of no meaning, which the API admits not, they may be.
func selectedBy(by *metav1.LabelSelector, of map[string]string) bool {
	s, err := metav1.LabelSelectorAsSelector(by)
	return err != nil || s.Matches(labels.Set(of))
}

// calicoRule reads a rule of a policy of Calico's that is in a namespace, "" = none.
func calicoRule(namespace string, r map[string]any) rule {
	action, _ := r["action"].(string)
	out := rule{action: action, all: unconditional(r), pods: fromSelected(r), protocol: protocolOf(r["protocol"])}
	to, _ := r["destination"].(map[string]any)
	if len(to) == 0 {
		return out
	}
	if ports, _ := to["ports"].([]any); len(ports) > 0 {
		out.ports = ports
	}
	text := func(key string) string { s, _ := to[key].(string); return s }
	nets, _ := to["nets"].([]any)
	out.nets = len(nets) > 0 && text("selector") == "" && text("namespaceSelector") == ""
	selects, err := selector.Parse(text("selector"))
	out.to = func(d destination) bool {
		inNet := func(n any) bool { s, _ := n.(string); return d.in(s) }
		switch {
		case len(nets) > 0 && out.ports == nil && !slices.ContainsFunc(nets, inNet):
			return false
		case text("selector") == "" || err != nil || inherits(text("selector")):
			return true
		case namespace != "" && text("namespaceSelector") == "" && d.namespace != namespace:
			return false
		}
		return selects(d.labels)
	}
	return out
}

// protocolOf is the protocol of a rule of Calico's, by its name in capitals or its number.
func protocolOf(of any) string {
	text, isText := of.(string)
	if !isText && of != nil {
		text = strconv.Itoa(int(number(of, -1)))
	}
	switch text {
	case "6":
		return protocolTCP
	case "17":
		return protocolUDP
	}
	return strings.ToUpper(text)
}
