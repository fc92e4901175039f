package netpolicy

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/calico-probe/calico-probe/internal/netpolicy/selector"
	"github.com/calico-probe/calico-probe/probe"
)

// OfKubernetes reads a Kubernetes NetworkPolicy.
func OfKubernetes(np *networkingv1.NetworkPolicy) Policy {
	s, err := metav1.LabelSelectorAsSelector(&np.Spec.PodSelector)
	if err != nil {
		s = labels.Everything() // the API does not admit such a selector
	}
	return Policy{name: "NetworkPolicy " + np.Namespace + "/" + np.Name, namespace: np.Namespace,
		ruling: kubernetesRuling(np), selects: func(l map[string]string) bool { return s.Matches(labels.Set(l)) }}
}

// OfCalico reads a Calico policy. If the policy's selector cannot be parsed, the policy is treated as one that may
// select any pod.
func OfCalico(kind, name string, spec map[string]any) Policy {
	namespace, _, _ := strings.Cut(name, "/")
	if !strings.Contains(name, "/") {
		namespace = ""
	}
	text, _ := spec["selector"].(string)
	text = cmp.Or(text, everyNamespace)
	_, err := selector.Parse(text)
	return Policy{name: kind + " " + name, namespace: namespace, text: text,
		ruling: calicoRuling(namespace, spec, err != nil)}
}

// calicoRuling reads a Calico policy's rules.
func calicoRuling(namespace string, spec map[string]any, vague bool) ruling {
	text := func(key string) string { s, _ := spec[key].(string); return s }
	set := func(key string) bool { on, _ := spec[key].(bool); return on }
	out := ruling{tier: cmp.Or(text("tier"), tierDefault), order: math.Inf(1), rules: map[string][]rule{}}
	out.vague = vague
	out.whom = entity{namespaces: text("namespaceSelector"), accountSelector: text("serviceAccountSelector")}
	out.order = number(spec["order"], out.order)
	if set("doNotTrack") || set("preDNAT") { // these policies apply to host endpoints only
		return out
	}
	types, _ := spec["types"].([]any)
	for _, d := range directions {
		list, _ := spec[d.rules].([]any)
		egress, _ := spec["egress"].([]any)
		byDefault := d.name == "Ingress" && (len(list) > 0 || len(egress) == 0) || d.name == "Egress" && len(list) > 0
		if len(types) > 0 && !slices.Contains(types, any(d.name)) || len(types) == 0 && !byDefault {
			continue
		}
		out.rules[d.is] = []rule{}
		for _, item := range list {
			r, _ := item.(map[string]any)
			out.rules[d.is] = append(out.rules[d.is], calicoRule(namespace, r))
		}
	}
	return out
}

// kubernetesRuling reads a Kubernetes policy's rules. These rules can only allow packets.
func kubernetesRuling(np *networkingv1.NetworkPolicy) ruling {
	out := ruling{tier: tierDefault, order: orderKubernetes, rules: map[string][]rule{}}
	types := np.Spec.PolicyTypes
	if len(types) == 0 || slices.Contains(types, networkingv1.PolicyTypeIngress) {
		out.rules[probe.DeniesIngress] = []rule{}
		for _, r := range np.Spec.Ingress {
			allows := rule{action: "Allow", all: len(r.From)+len(r.Ports) == 0, pods: fromPods(r.From)}
			out.rules[probe.DeniesIngress] = append(out.rules[probe.DeniesIngress],
				allows.each(np.Namespace, r.From, r.Ports, func(one *rule) *entity { return &one.src })...)
		}
	}
	if slices.Contains(types, networkingv1.PolicyTypeEgress) || len(types) == 0 && len(np.Spec.Egress) > 0 {
		out.rules[probe.DeniesEgress] = []rule{}
		for _, r := range np.Spec.Egress {
			allows := rule{action: "Allow", all: len(r.To)+len(r.Ports) == 0}
			out.rules[probe.DeniesEgress] = append(out.rules[probe.DeniesEgress],
				allows.each(np.Namespace, r.To, r.Ports, func(one *rule) *entity { return &one.dst })...)
		}
	}
	return out
}

// NewSet reads one of Calico's network sets. If it has no namespace, it is a GlobalNetworkSet.
func NewSet(namespace, name string, labels map[string]string, nets []string) Set {
	set := Set{name: "GlobalNetworkSet " + name, namespace: namespace, labels: map[string]string{}}
	maps.Copy(set.labels, labels)
	if namespace != "" {
		set.name, set.labels[labelNamespace] = "NetworkSet "+namespace+"/"+name, namespace
	}
	set.nets, set.Bad = prefixes(nets)
	return set
}

// prefixes parses networks. It parses a single address as a network with one address. Like Calico, it skips invalid
// texts.
func prefixes(texts []string) (out []netip.Prefix, bad bool) {
	for _, text := range texts {
		network, err := netip.ParsePrefix(text)
		if addr, notNetwork := netip.ParseAddr(text); err != nil && notNetwork == nil {
			network, err = addr.Prefix(addr.BitLen())
		}
		if err != nil {
			bad = true
			continue
		}
		out = append(out, network.Masked())
	}
	return out, bad
}

// number reads a JSON number, which may be an integer or a float.
func number(v any, otherwise float64) float64 {
	switch n := v.(type) {
	case int64:
		return float64(n)
	case float64:
		return n
	}
	return otherwise
}

// unconditional reports whether a Calico rule matches every packet.
func unconditional(r map[string]any) bool {
	for key, value := range r {
		part, isPart := value.(map[string]any)
		if key != "action" && key != "metadata" && (!isPart || len(part) > 0) {
			return false
		}
	}
	return true
}

// each returns a rule for each combination of a Kubernetes policy's peers and ports. An empty list means all. The
// function end selects the end of the rule to which the peers apply.
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
			next.protocol, next.dst.ports = ProtocolTCP, nil
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

// peerEntity converts a Kubernetes policy's peer to Calico's terms (libcalico-go, k8s/conversion).
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

// selectorText translates a Kubernetes selector into Calico's language.
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

// calicoRule reads a rule of a Calico policy in a namespace; "" = a global policy.
func calicoRule(namespace string, r map[string]any) rule {
	action, _ := r["action"].(string)
	icmp, _ := r["icmp"].(map[string]any)
	notICMP, _ := r["notICMP"].(map[string]any)
	return rule{action: action, all: unconditional(r), pods: fromSelected(r), protocol: protocolOf(r["protocol"]),
		notProtocol: protocolOf(r["notProtocol"]), version: int(number(r["ipVersion"], 0)),
		icmp: len(icmp)+len(notICMP) > 0, src: calicoEntity(namespace, r["source"]),
		dst: calicoEntity(namespace, r["destination"])}
}

// calicoEntity reads a Calico rule's requirements for one end.
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

// protocolOf returns a Calico rule's protocol: its name in capitals, or its number.
func protocolOf(of any) string {
	text, isText := of.(string)
	if !isText && of != nil {
		text = strconv.Itoa(int(number(of, -1)))
	}
	switch text {
	case "6":
		return ProtocolTCP
	case "17":
		return ProtocolUDP
	}
	return strings.ToUpper(text)
}

// fromPods reports whether a NetworkPolicy's rule matches only pods: no peer is an IP block.
func fromPods(peers []networkingv1.NetworkPolicyPeer) bool {
	addresses := func(p networkingv1.NetworkPolicyPeer) bool { return p.IPBlock != nil }
	return len(peers) > 0 && !slices.ContainsFunc(peers, addresses)
}

// fromSelected reports whether a Calico rule matches only senders with certain labels.
func fromSelected(r map[string]any) bool {
	source, _ := r["source"].(map[string]any)
	text, _ := source["selector"].(string)
	of, _ := source["namespaceSelector"].(string)
	nets, _ := source["nets"].([]any)
	return (text != "" && text != "all()" || of != "") && len(nets) == 0
}

// Sort sorts the policies in the order of evaluation, tier by tier. After that, each selector is parsed only once.
func (p *Policies) Sort() {
	p.parsed = &parsedSelectors{by: map[string]parsedSelector{}}
	const last = 1000000 // order of the default tier, if its object has none
	order := func(tier string) float64 {
		otherwise := math.Inf(1)
		if tier == tierDefault {
			otherwise = last
		}
		return number(p.Tiers[tier]["order"], otherwise)
	}
	slices.SortStableFunc(p.List, func(a, b Policy) int {
		return cmp.Or(cmp.Compare(order(a.tier), order(b.tier)), cmp.Compare(a.tier, b.tier), cmp.Compare(a.order, b.order),
			cmp.Compare(a.name, b.name))
	})
}

// The protocols of the flows that callers check, as policies name them.
const (
	ProtocolTCP = "TCP"
	ProtocolUDP = "UDP"
)
