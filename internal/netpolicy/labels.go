package netpolicy

import (
	"cmp"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"sync"

	corev1 "k8s.io/api/core/v1"

	"github.com/calico-probe/calico-probe/internal/netpolicy/selector"
)

// selected reports whether a rule's selectors match an end's labels, or the labels of a network set that contains the
// end's address.
func (p Policies) selected(x *entity, e *End) answer {
	out := no
	switch {
	case e.Labels != nil:
		out = p.labelled(x, e.Namespace, e.Labels)
	default: // a HostEndpoint may have this address
		out = min(maybe, p.within(x, ""))
	}
	if p.SetsUnread != nil && out != yes {
		return max(out, maybe)
	}
	if len(p.Sets) == 0 || out == yes {
		return out
	}
	bySet := each(e.Addrs, func(a netip.Addr) answer { return p.inSets(x, a) })
	for _, a := range e.Also {
		if p.inSets(x, a) != bySet {
			bySet = maybe
		}
	}
	if bySet == maybe && len(e.Addrs) == 0 { // without an address, each set may contain it
		bySet = p.anySet(x)
	}
	return max(out, bySet)
}

// inSets reports whether a network set that a rule selects contains an address.
func (p Policies) inSets(x *entity, a netip.Addr) answer {
	out := no
	for _, set := range p.Sets {
		in := sure(slices.ContainsFunc(set.nets, func(n netip.Prefix) bool { return n.Contains(a) }))
		if set.Bad {
			in = max(in, maybe)
		}
		out = max(out, min(in, p.labelled(x, set.namespace, set.labels)))
	}
	return out
}

// setWith returns a network set that a rule selects, with the set's network that contains an address, or "" if there is
// none.
func (p Policies) setWith(x *entity, a netip.Addr) string {
	for _, set := range p.Sets {
		in := slices.IndexFunc(set.nets, func(n netip.Prefix) bool { return n.Contains(a) })
		if in >= 0 && p.labelled(x, set.namespace, set.labels) == yes {
			return fmt.Sprintf("%s (%v)", set.name, set.nets[in])
		}
	}
	return ""
}

// anySet reports whether a rule may select a network set.
func (p Policies) anySet(x *entity) answer {
	for _, set := range p.Sets {
		if p.labelled(x, set.namespace, set.labels) != no {
			return maybe
		}
	}
	return no
}

// labelled reports whether an object with these labels in a namespace is selected.
func (p Policies) labelled(x *entity, namespace string, with map[string]string) answer {
	out := min(p.within(x, namespace), p.selectsBy(x.selector, namespace, with))
	if len(x.accounts) > 0 {
		out = min(out, sure(slices.Contains(x.accounts, with[labelAccount])))
	}
	if x.accountSelector != "" {
		out = min(out, accountsBy(x.accountSelector, with[labelAccount]))
	}
	return out
}

// within reports whether a rule selects a namespace; "" = an object without a namespace.
func (p Policies) within(x *entity, namespace string) answer {
	switch {
	case x.namespaces != "":
		return p.namespacesBy(x.namespaces, namespace)
	case x.of != "":
		return sure(namespace == x.of)
	}
	return yes
}

// namespacesBy reports whether a namespace selector matches a namespace; "" = an object without a namespace.
func (p Policies) namespacesBy(text, namespace string) answer {
	switch text = strings.TrimSpace(text); {
	case text == everyNamespace:
		return sure(namespace != "")
	case text == outsideOfNamespace:
		return sure(namespace == "")
	case strings.Contains(text, everyNamespace), strings.Contains(text, outsideOfNamespace):
		return maybe
	}
	s, err := p.parsed.of(text)
	if err != nil {
		return maybe
	}
	if namespace == "" {
		return sure(s(map[string]string{}))
	}
	with, known := p.Names[namespace]
	if !known && !onlyNames(text) {
		return maybe
	}
	out := map[string]string{labelName: namespace, labelProfileName: namespace}
	maps.Copy(out, with)
	return sure(s(out))
}

// onlyNames reports whether a namespace selector requires only labels that the API server sets itself.
func onlyNames(text string) bool {
	rest := strings.NewReplacer(labelName, "", labelProfileName, "").Replace(text)
	return len(rest) < len(text) && !strings.Contains(rest, "&&") && !strings.Contains(rest, "||")
}

// selectsBy reports whether a selector matches these labels. The service account's labels are unknown.
func (p Policies) selectsBy(text, namespace string, with map[string]string) answer {
	if text == "" {
		return yes
	}
	s, err := p.parsed.of(text)
	if err != nil || strings.Contains(text, ofAccount) || strings.Contains(text, outsideOfNamespace) {
		return maybe
	}
	if !strings.Contains(text, ofNamespace) {
		return sure(s(with))
	}
	names, known := p.Names[namespace]
	if !known && namespace != "" {
		return maybe
	}
	out := maps.Clone(with)
	if namespace != "" {
		out[ofNamespace+labelProfileName] = namespace
	}
	for key, value := range names {
		out[ofNamespace+key] = value
	}
	return sure(s(out))
}

// accountsBy reports whether a selector for service accounts matches an account. Only the account's name is known.
func accountsBy(text, account string) answer {
	return max(maybe, sure(account != "" && strings.TrimSpace(text) == everyNamespace))
}

// parsedSelectors caches parsed selectors, because there may be thousands of rules, and each is evaluated for each pod.
type parsedSelectors struct {
	mu sync.Mutex
	by map[string]parsedSelector
}

type parsedSelector struct {
	selector.Selector
	err error
}

// of returns the selector with this text.
func (p *parsedSelectors) of(text string) (selector.Selector, error) {
	if p == nil {
		return selector.Parse(text)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	one, had := p.by[text]
	if !had {
		one.Selector, one.err = selector.Parse(text)
		p.by[text] = one
	}
	return one.Selector, one.err
}

// withCalicos returns a pod's labels together with those that Calico adds (libcalico-go, k8s/conversion).
func withCalicos(namespace string, of map[string]string) map[string]string {
	out := map[string]string{}
	maps.Copy(out, of)
	out[labelNamespace], out[labelOrchestrator] = namespace, "k8s"
	return out
}

// LabelsOf returns all labels that a pod has in Calico, except those of its namespace and its service account.
func LabelsOf(p *corev1.Pod) map[string]string {
	out := withCalicos(p.Namespace, p.Labels)
	out[labelAccount] = p.Spec.ServiceAccountName
	return out
}

// EndOf returns a pod as policies see it.
func EndOf(p *corev1.Pod) End {
	out := End{Namespace: p.Namespace, Labels: LabelsOf(p), Ports: PortNames(p)}
	for _, ip := range p.Status.PodIPs {
		if addr, err := netip.ParseAddr(strings.TrimSpace(ip.IP)); err == nil {
			out.Addrs = append(out.Addrs, addr)
		}
	}
	return out
}

// PortNames returns a pod's ports by the names that policies may use, or nil if the pod does not declare ports.
func PortNames(p *corev1.Pod) (out map[string]int) {
	for _, c := range p.Spec.Containers {
		for _, port := range c.Ports {
			if port.Name == "" {
				continue
			}
			if out == nil {
				out = map[string]int{}
			}
			out[string(cmp.Or(port.Protocol, corev1.ProtocolTCP))+"/"+port.Name] = int(port.ContainerPort)
		}
	}
	return out
}
