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
)

// A destination is pods of a namespace with the same labels that are to receive packets at a port.
type destination struct {
	protocol  string
	port      int // 0 = not known
	namespace string
	labels    map[string]string
	addrs     []netip.Addr // their own, and those by which they are asked
}

// The protocols that rules are asked about, as policies name them.
const (
	protocolTCP = "TCP"
	protocolUDP = "UDP"
)

// mayReach tells whether a rule may be about packets for a destination.
func (r rule) mayReach(d destination) bool {
	if d.port == 0 && (r.protocol == "" || r.protocol == d.protocol) || r.mayBe(d.protocol, d.port) {
		return r.to == nil || r.to(d)
	}
	return false
}

// egressRules are a rule of a policy of Kubernetes' for what pods send, one for each of its ports.
func egressRules(namespace string, r networkingv1.NetworkPolicyEgressRule) []rule {
	one := rule{action: "Allow", all: len(r.To)+len(r.Ports) == 0, to: peersOf(namespace, r.To, len(r.Ports) > 0),
		nets: len(r.To) > 0}
	for _, p := range r.To {
		one.nets = one.nets && p.IPBlock != nil
	}
	return one.at(r.Ports)
}

// at returns the rule for each of the ports of a policy of Kubernetes', none = every port.
func (one rule) at(ports []networkingv1.NetworkPolicyPort) []rule {
	if len(ports) == 0 {
		return []rule{one}
	}
	var out []rule
	for _, p := range ports {
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
	var out []func(destination) bool
	for _, p := range peers {
		if p.IPBlock != nil {
			in := network(p.IPBlock.CIDR)
			out = append(out, func(d destination) bool { return hasPorts || in(d) })
			continue
		}
		within := func(of string) bool { return of == namespace }
		if p.NamespaceSelector != nil {
			known := selectorOf(onlyName(p.NamespaceSelector))
			within = func(of string) bool { return known.Matches(labels.Set{labelName: of}) }
		}
		selects := labels.Everything()
		if p.PodSelector != nil {
			selects = selectorOf(p.PodSelector)
		}
		out = append(out, func(d destination) bool { return within(d.namespace) && selects.Matches(labels.Set(d.labels)) })
	}
	if len(out) == 0 {
		return nil
	}
	return func(d destination) bool {
		return slices.ContainsFunc(out, func(may func(destination) bool) bool { return may(d) })
	}
}

// linkLocal has the addresses at which caches on the node listen, such as NodeLocal DNSCache.
var linkLocal = netip.MustParsePrefix("169.254.0.0/16")

// network tells whether an address of a destination may be in a network; in an unreadable one each may be.
func network(text string) func(destination) bool {
	cidr, err := netip.ParsePrefix(text)
	return func(d destination) bool {
		return err != nil || cidr.Overlaps(linkLocal) || slices.ContainsFunc(d.addrs, cidr.Contains)
	}
}

const labelName = corev1.LabelMetadataName

// onlyName is what a selector asks of a namespace's name. Of a namespace's labels this one is known, which the API
// server sets itself.
func onlyName(by *metav1.LabelSelector) *metav1.LabelSelector {
	out := &metav1.LabelSelector{MatchLabels: map[string]string{}}
	if want, named := by.MatchLabels[labelName]; named {
		out.MatchLabels[labelName] = want
	}
	for _, e := range by.MatchExpressions {
		if e.Key == labelName {
			out.MatchExpressions = append(out.MatchExpressions, e)
		}
	}
	return out
}

// selectorOf is a selector that is ready to be asked; one of no meaning, which the API admits not, selects everything.
func selectorOf(by *metav1.LabelSelector) labels.Selector {
	s, err := metav1.LabelSelectorAsSelector(by)
	if err != nil {
		return labels.Everything()
	}
	return s
}

// calicoRule reads a rule of a policy of Calico's. Whom it lets out to by a selector is not worked out: beside pods
// that may be a NetworkSet, which may have any address.
func calicoRule(r map[string]any) rule {
	action, _ := r["action"].(string)
	out := rule{action: action, all: unconditional(r), pods: fromSelected(r), protocol: protocolOf(r["protocol"]),
		from: senders(r)}
	to, _ := r["destination"].(map[string]any)
	if ports, _ := to["ports"].([]any); len(ports) > 0 {
		out.ports = ports
	}
	nets, _ := to["nets"].([]any)
	var in []func(destination) bool
	for _, n := range nets {
		text, _ := n.(string)
		in = append(in, network(text))
	}
	if len(in) == 0 {
		return out
	}
	selector, _ := to["selector"].(string)
	of, _ := to["namespaceSelector"].(string)
	out.nets = selector == "" && of == ""
	hasPorts := out.ports != nil
	out.to = func(d destination) bool {
		return hasPorts || slices.ContainsFunc(in, func(may func(destination) bool) bool { return may(d) })
	}
	return out
}

// senders are the networks that a rule of Calico's is about what comes from, nil where one cannot be read. A selector
// beside them leaves some of them out, and adds none.
func senders(r map[string]any) (out []netip.Prefix) {
	source, _ := r["source"].(map[string]any)
	nets, _ := source["nets"].([]any)
	for _, n := range nets {
		text, _ := n.(string)
		network, err := netip.ParsePrefix(text)
		if addr, notNetwork := netip.ParseAddr(text); err != nil && notNetwork == nil {
			network, err = addr.Prefix(addr.BitLen())
		}
		if err != nil {
			return nil
		}
		out = append(out, network)
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
