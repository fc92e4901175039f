package cluster

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"sync"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/calico-probe/calico-probe/internal/cluster/selector"
)

// The labels that Calico adds (libcalico-go, k8s/conversion).
const (
	labelNamespace     = "projectcalico.org/namespace"
	labelOrchestrator  = "projectcalico.org/orchestrator"
	labelAccount       = "projectcalico.org/serviceaccount"
	labelProfileName   = "projectcalico.org/name"
	ofNamespace        = "pcns."
	ofAccount          = "pcsa."
	everyNamespace     = "all()"
	outsideOfNamespace = "global()"
)

// A networkSet is addresses that a selector may mean, beside pods.
type networkSet struct {
	name      string // with its kind
	namespace string // "" = a GlobalNetworkSet
	labels    map[string]string
	nets      []netip.Prefix
	bad       bool // some could not be read
}

// readSets lists Calico's network sets.
func (c *Client) readNetworkSets(ctx context.Context) (out []networkSet, err error) {
	for _, resource := range []string{"globalnetworksets", "networksets"} {
		items, _, listErr := c.list(ctx, resource, 0)
		err = errors.Join(err, listErr)
		for _, item := range items {
			texts, _, textsErr := unstructured.NestedStringSlice(item.Object, "spec", "nets")
			set := networkSet{name: "GlobalNetworkSet " + item.GetName(), namespace: item.GetNamespace(),
				labels: map[string]string{}}
			maps.Copy(set.labels, item.GetLabels())
			if set.namespace != "" {
				set.name, set.labels[labelNamespace] = "NetworkSet "+set.namespace+"/"+item.GetName(), set.namespace
			}
			set.nets, set.bad = prefixes(texts)
			set.bad = set.bad || textsErr != nil
			out = append(out, set)
		}
	}
	return out, err
}

// prefixes reads networks, and addresses as networks of one, as Calico does, which skips what it cannot read.
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

// readNamespaces lists the labels of all namespaces, nil where they may not be read.
func (c *Client) readNamespaces(ctx context.Context) (out map[string]map[string]string) {
	err := inPages(ctx, c.kube.CoreV1().Namespaces(), metav1.ListOptions{},
		func() { out = map[string]map[string]string{} },
		func(n *corev1.Namespace) {
			if n.Labels == nil {
				n.Labels = map[string]string{}
			}
			out[n.Name] = n.Labels
		})
	if err != nil {
		return nil
	}
	return out
}

// selected reports whether the labels that a rule requires are those of an end, or of a network set that has its
// address.
func (p policies) selected(x *entity, e *end) answer {
	out := no
	switch {
	case e.labels != nil:
		out = p.labelled(x, e.namespace, e.labels)
	default: // a HostEndpoint may have that address
		out = min(maybe, p.within(x, ""))
	}
	if p.sets.Err != nil && out != yes {
		return max(out, maybe)
	}
	if len(p.sets.Value) == 0 || out == yes {
		return out
	}
	bySet := each(e.addrs, func(a netip.Addr) answer { return p.inSets(x, a) })
	for _, a := range e.also {
		if p.inSets(x, a) != bySet {
			bySet = maybe
		}
	}
	if bySet == maybe && len(e.addrs) == 0 { // maybe in one, where any may be meant
		bySet = p.anySet(x)
	}
	return max(out, bySet)
}

// inSets reports whether a network set that a rule selects has an address.
func (p policies) inSets(x *entity, a netip.Addr) answer {
	out := no
	for _, set := range p.sets.Value {
		in := sure(slices.ContainsFunc(set.nets, func(n netip.Prefix) bool { return n.Contains(a) }))
		if set.bad {
			in = max(in, maybe)
		}
		out = max(out, min(in, p.labelled(x, set.namespace, set.labels)))
	}
	return out
}

// setWith names the network set that a rule selects and the network of it that has an address, "" where there is none.
func (p policies) setWith(x *entity, a netip.Addr) string {
	for _, set := range p.sets.Value {
		in := slices.IndexFunc(set.nets, func(n netip.Prefix) bool { return n.Contains(a) })
		if in >= 0 && p.labelled(x, set.namespace, set.labels) == yes {
			return fmt.Sprintf("%s (%v)", set.name, set.nets[in])
		}
	}
	return ""
}

// anySet reports whether a rule may select a network set.
func (p policies) anySet(x *entity) answer {
	for _, set := range p.sets.Value {
		if p.labelled(x, set.namespace, set.labels) != no {
			return maybe
		}
	}
	return no
}

// labelled reports whether what has these labels in a namespace is selected.
func (p policies) labelled(x *entity, namespace string, with map[string]string) answer {
	out := min(p.within(x, namespace), p.selectsBy(x.selector, namespace, with))
	if len(x.accounts) > 0 {
		out = min(out, sure(slices.Contains(x.accounts, with[labelAccount])))
	}
	if x.accountSelector != "" {
		out = min(out, accountsBy(x.accountSelector, with[labelAccount]))
	}
	return out
}

// within reports whether a namespace is one that a rule requires, "" for what is in none.
func (p policies) within(x *entity, namespace string) answer {
	switch {
	case x.namespaces != "":
		return p.namespacesBy(x.namespaces, namespace)
	case x.of != "":
		return sure(namespace == x.of)
	}
	return yes
}

// namespacesBy reports whether a selector of namespaces selects one, "" = what is in none.
func (p policies) namespacesBy(text, namespace string) answer {
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
	with, known := p.names[namespace]
	if !known && !onlyNames(text) {
		return maybe
	}
	out := map[string]string{labelName: namespace, labelProfileName: namespace}
	maps.Copy(out, with)
	return sure(s(out))
}

// onlyNames reports whether a selector of namespaces requires only what the API server sets itself.
func onlyNames(text string) bool {
	rest := strings.NewReplacer(labelName, "", labelProfileName, "").Replace(text)
	return len(rest) < len(text) && !strings.Contains(rest, "&&") && !strings.Contains(rest, "||")
}

// selectsBy reports whether a selector selects what has these labels. Those of the account are not known.
func (p policies) selectsBy(text, namespace string, with map[string]string) answer {
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
	names, known := p.names[namespace]
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

// accountsBy reports whether a selector of accounts selects one, of which only the name is known.
func accountsBy(text, account string) answer {
	return max(maybe, sure(account != "" && strings.TrimSpace(text) == everyNamespace))
}

// parsedSelectors are selectors that were parsed once: there may be thousands of rules, and each is asked of each pod.
type parsedSelectors struct {
	mu sync.Mutex
	by map[string]parsedSelector
}

type parsedSelector struct {
	selector.Selector
	err error
}

// of is the selector with this text.
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
