package cluster

import (
	"fmt"
	"net/netip"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// A destination is pods of a namespace with the same labels that are to receive packets at a port.
type destination struct {
	protocol string
	port     int // 0 = not known
	end
}

// The protocols that rules are asked about, as policies name them.
const (
	protocolTCP = "TCP"
	protocolUDP = "UDP"
)

// linkLocal has the addresses at which caches on the node listen, such as NodeLocal DNSCache.
var linkLocal = netip.MustParsePrefix("169.254.0.0/16")

const labelName = corev1.LabelMetadataName

// each returns the rule for each of the peers and of the ports of a policy of Kubernetes', none = every one. The end
// that they are about is that of the function.
func (one rule) each(namespace string, peers []networkingv1.NetworkPolicyPeer, ports []networkingv1.NetworkPolicyPort,
	of func(*rule) *entity,
) (out []rule) {
	for i := range max(len(peers), 1) {
		next := one
		if len(peers) > 0 {
			*of(&next) = peerEntity(namespace, &peers[i])
		}
		if len(ports) == 0 {
			out = append(out, next)
		}
		for _, p := range ports {
			next.protocol, next.dst.ports = protocolTCP, nil
			if p.Protocol != nil {
				next.protocol = string(*p.Protocol)
			}
			switch {
			case p.Port != nil && p.EndPort != nil:
				next.dst.ports = []any{p.Port.String() + ":" + strconv.Itoa(int(*p.EndPort))}
			case p.Port != nil:
				next.dst.ports = []any{p.Port.String()}
			}
			out = append(out, next)
		}
	}
	return out
}

// peerEntity is what a peer of a policy of Kubernetes' requires, in Calico's words (libcalico-go, k8s/conversion).
func peerEntity(namespace string, p *networkingv1.NetworkPolicyPeer) (out entity) {
	if p.IPBlock != nil {
		out.nets, out.badNets = prefixes([]string{p.IPBlock.CIDR})
		var bad bool
		out.notNets, bad = prefixes(p.IPBlock.Except)
		out.badNets = out.badNets || bad
		return out
	}
	out.of, out.selector = namespace, selectorText(p.PodSelector, labelOrchestrator+" == 'k8s'")
	if p.NamespaceSelector != nil {
		out.namespaces = selectorText(p.NamespaceSelector)
		if out.namespaces == "" {
			out.namespaces = everyNamespace
		}
	}
	return out
}

// selectorText is a selector of Kubernetes' in Calico's language.
func selectorText(by *metav1.LabelSelector, parts ...string) string {
	if by == nil {
		return strings.Join(parts, " && ")
	}
	for key, value := range by.MatchLabels {
		parts = append(parts, fmt.Sprintf("%s == '%s'", key, value))
	}
	for _, e := range by.MatchExpressions {
		values := strings.Join(e.Values, "', '")
		switch e.Operator {
		case metav1.LabelSelectorOpIn:
			parts = append(parts, fmt.Sprintf("%s in {'%s'}", e.Key, values))
		case metav1.LabelSelectorOpNotIn:
			parts = append(parts, fmt.Sprintf("%s not in {'%s'}", e.Key, values))
		case metav1.LabelSelectorOpExists:
			parts = append(parts, fmt.Sprintf("has(%s)", e.Key))
		case metav1.LabelSelectorOpDoesNotExist:
			parts = append(parts, fmt.Sprintf("!has(%s)", e.Key))
		}
	}
	return strings.Join(parts, " && ")
}

// calicoRule reads a rule of a policy of Calico's in a namespace, "" for a global one.
func calicoRule(namespace string, r map[string]any) rule {
	action, _ := r["action"].(string)
	icmp, _ := r["icmp"].(map[string]any)
	notICMP, _ := r["notICMP"].(map[string]any)
	return rule{action: action, all: unconditional(r), pods: fromSelected(r), protocol: protocolOf(r["protocol"]),
		notProtocol: protocolOf(r["notProtocol"]), version: int(number(r["ipVersion"], 0)),
		icmp: len(icmp)+len(notICMP) > 0, src: calicoEntity(namespace, r["source"]),
		dst: calicoEntity(namespace, r["destination"])}
}

// calicoEntity reads what a rule of Calico's requires of one end.
func calicoEntity(namespace string, of any) entity {
	spec, _ := of.(map[string]any)
	text := func(key string) string { s, _ := spec[key].(string); return s }
	texts := func(list any) (out []string) {
		items, _ := list.([]any)
		for _, item := range items {
			s, _ := item.(string)
			out = append(out, s)
		}
		return out
	}
	out := entity{of: namespace, selector: text("selector"), namespaces: text("namespaceSelector"),
		notSelector: text("notSelector")}
	accounts, _ := spec["serviceAccounts"].(map[string]any)
	out.accountSelector, _ = accounts["selector"].(string)
	out.accounts = texts(accounts["names"])
	var bad bool
	out.nets, out.badNets = prefixes(texts(spec["nets"]))
	out.notNets, bad = prefixes(texts(spec["notNets"]))
	out.badNets = out.badNets || bad
	out.ports, _ = spec["ports"].([]any)
	out.notPorts, _ = spec["notPorts"].([]any)
	if service, is := spec["services"].(map[string]any); is {
		name, _ := service["name"].(string)
		in, _ := service["namespace"].(string)
		if in == "" {
			in = namespace
		}
		out.service = in + "/" + name
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
